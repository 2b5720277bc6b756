// Shares: no owner holds more of a memory than its limits allow. Every transaction asks, for all owners
// that would hold more after it, before it is committed; so a verb cannot forget. What is reserved and
// not committed yet (steps, restores, rewrites, promises to requests) counts as pending.
//
// All functions: under the store's mutex; a look at some counters.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/memory/geometry.h"
#include "engine/memory/owner.h"
#include "shm/error.h"
#include "shm/segment_layout.h"

namespace kvd {

struct MemoryStore;

// Each at most so many; the default is no limit.
struct OwnerLimits {
  std::uint64_t sequences = ~std::uint64_t{0};
  std::array<std::uint64_t, layout::kGroupsMax> blocks = {~std::uint64_t{0}, ~std::uint64_t{0},
                                                          ~std::uint64_t{0}, ~std::uint64_t{0}};
  std::uint64_t state_slots = ~std::uint64_t{0};
  std::uint64_t list_units = ~std::uint64_t{0};
  // Caches: an owner that is at its limit gives up its own and is not refused.
  std::uint64_t checkpoint_slots = ~std::uint64_t{0};
  std::uint64_t logits_rows = ~std::uint64_t{0};
  // Blocks and state slots are compared with what all owners hold together: a reserve for others stays
  // free.
  bool counts_all = false;
};

// Given by the memory's user. Called under the memory's mutex: no calls back.
class ShareRules {
 public:
  virtual ~ShareRules() = default;
  virtual OwnerLimits LimitsOf(OwnerId owner, const MemoryGeometry& geometry) const = 0;
};

// The sentence of all refusals: "WHAT: 5 more wanted, owner 1000 holds 10 of 12".
std::unexpected<Error> FailShare(const char* what, OwnerId owner, std::uint64_t wanted,
                                 std::uint64_t held, std::uint64_t limit);

// What one owner has reserved. Plain data: AddPending counts it, and DropPending must follow.
struct PendingUse {
  OwnerId owner{};
  std::array<std::uint64_t, layout::kGroupsMax> blocks = {};
  std::uint64_t state_slots = 0;
  bool is_counted = false;
};

// Blocks and a state slot that are kept free for the tokens of one request.
struct PromisedUse {
  std::uint64_t number = 0;  // of the promise
  PendingUse use;
};

// Of a store: the rules, what is pending, and of that what is promised.
struct ShareBook {
  const ShareRules* rules = nullptr;  // null: no limits
  std::vector<PendingUse> pending;    // by owner, in no order
  PendingUse pending_of_all;
  std::map<std::uint32_t, PromisedUse> promises;  // by sequence
  std::array<std::uint64_t, layout::kGroupsMax> promised_blocks = {};
  std::uint64_t promise_number = 0;
};

// What is compared with the owner's limits: what it holds and has pending; blocks and state slots
// of all owners, where its limits count all.
OwnerUse CountedUse(const MemoryStore& store, OwnerId owner);
// Whether the owner's counted use is within its limits now, as far as it is more than `before`.
// Errors: kNoSpace with the numbers.
Status CheckShare(const MemoryStore& store, OwnerId owner, const OwnerUse& before);
// Counts it, if it is within the owner's limits. Errors: kNoSpace.
Status AddPending(MemoryStore& store, PendingUse* use);
// Uncounts it, if it is counted: it is all zero then.
void DropPending(MemoryStore& store, PendingUse* use);
OwnerLimits LimitsOf(const MemoryStore& store, OwnerId owner);

// Free blocks of a group that may be taken: what is promised is left, free or reclaimable.
std::uint64_t CountAvailable(const MemoryStore& store, std::uint32_t group);
// Keeps that much for a sequence's tokens, in place of what was promised to it. Errors: kNoSpace (the
// owner's limits, or the pool, with the numbers). Returns the promise's number.
Result<std::uint64_t> AddPromise(MemoryStore& store, std::uint32_t index, PendingUse use);
// Reduces the sequence's promise by `use`, as far as it goes. Returns by how much.
PendingUse TakePromised(MemoryStore& store, std::uint32_t index, const PendingUse& use);
// Adds `taken` to the promise again, if the sequence still has one of that owner.
void ReturnPromised(MemoryStore& store, std::uint32_t index, const PendingUse& taken);
// Ends a promise; nothing, if there is another one.
void EndPromise(MemoryStore& store, std::uint32_t index, std::uint64_t number);

}  // namespace kvd
