// Shares: no owner holds more of a memory than its limits allow. Every transaction checks, before
// its commit, all owners that would hold more after the commit, so no verb can omit the check.
// Resources that steps, restores, rewrites and promises have reserved and not committed yet count
// as pending.
//
// All functions are called under the store's mutex; each reads some counters.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/error.h"
#include "engine/memory/geometry.h"
#include "engine/memory/owner.h"
#include "shm/segment_layout.h"

namespace kvd {

struct MemoryStore;

// The most that an owner may hold of each resource; the default is no limit.
struct OwnerLimits {
  std::uint64_t sequences = ~std::uint64_t{0};
  std::array<std::uint64_t, layout::kGroupsMax> blocks = {~std::uint64_t{0}, ~std::uint64_t{0},
                                                          ~std::uint64_t{0}, ~std::uint64_t{0}};
  std::uint64_t state_slots = ~std::uint64_t{0};
  std::uint64_t list_units = ~std::uint64_t{0};
  // Caches: an owner at its limit gives up its own entries and is not refused.
  std::uint64_t checkpoint_slots = ~std::uint64_t{0};
  std::uint64_t logits_rows = ~std::uint64_t{0};
  // True: the limits of blocks and state slots apply to the sum over all owners, so that a part of
  // the memory stays free for other owners.
  bool counts_all = false;
};

// The limits of owners, implemented by the daemon. LimitsOf is called under the memory's mutex and
// must not call the memory.
class ShareRules {
 public:
  virtual ~ShareRules() = default;
  virtual OwnerLimits LimitsOf(OwnerId owner, const MemoryGeometry& geometry) const = 0;
};

// The error of a request that exceeds a limit: "WHAT: 5 more wanted, owner 1000 holds 10 of 12";
// kNoOwner: "all owners hold 10 of 12".
std::unexpected<Error> FailShare(const char* what, OwnerId owner, std::uint64_t wanted,
                                 std::uint64_t held, std::uint64_t limit);

// The resources that one owner has reserved and not committed. PendingUse is plain data: each
// AddPending must be followed by a DropPending of the same object.
struct PendingUse {
  OwnerId owner{};
  std::array<std::uint64_t, layout::kGroupsMax> blocks = {};
  std::uint64_t state_slots = 0;
  bool is_counted = false;
};

// A promise: blocks and a state slot that are kept free for the tokens of one request.
struct PromisedUse {
  std::uint64_t number = 0;  // number of the promise
  PendingUse use;
};

// The share rules of a store, its pending uses, and its promises, which the pending uses include.
struct ShareBook {
  const ShareRules* rules = nullptr;  // null: no limits
  std::vector<PendingUse> pending;    // by owner, in no order
  PendingUse pending_of_all;
  std::map<std::uint32_t, PromisedUse> promises;  // by index of the sequence
  std::array<std::uint64_t, layout::kGroupsMax> promised_blocks = {};
  std::uint64_t promise_number = 0;
};

// The use that is compared with the owner's limits: the resources that the owner holds or has
// pending, and those that it has dropped but that a save by the owner still reads. If the owner's
// limits have counts_all, the blocks and state slots are those of all owners.
OwnerUse CountedUse(const MemoryStore& store, OwnerId owner);
// Checks the owner's limits of those resources of which its counted use is larger than in `before`.
// Errors: kNoSpace with the numbers.
Status CheckShare(const MemoryStore& store, OwnerId owner, const OwnerUse& before);
// Counts `use` as pending, if it is within the owner's limits. Errors: kNoSpace.
Status AddPending(MemoryStore& store, PendingUse* use);
// Whether AddPending would count `use`. Errors: kNoSpace.
Status CheckPending(const MemoryStore& store, const PendingUse& use);
// Whether `use` alone is above the owner's limits.
bool ExceedsLimits(const MemoryStore& store, const PendingUse& use);
// Ends the counting of `use`, if it is counted, and sets it to zero.
void DropPending(MemoryStore& store, PendingUse* use);
OwnerLimits LimitsOf(const MemoryStore& store, OwnerId owner);

// The number of free and reclaimable blocks that are not promised to a sequence.
std::uint64_t CountUnpromised(const MemoryStore& store, std::uint32_t group);
// The number of free blocks of a group that may be taken so that enough free and reclaimable blocks
// are left for all promises.
std::uint64_t CountAvailable(const MemoryStore& store, std::uint32_t group);
// Promises `use` for a sequence's tokens; replaces an earlier promise to the sequence. Returns the
// promise's number. Errors: kNoSpace (the owner's limits, or the pool, with the numbers).
Result<std::uint64_t> AddPromise(MemoryStore& store, std::uint32_t index, PendingUse use);
// Reduces each number of the sequence's promise by that of `use`, but not below zero. Returns the
// amount of the reduction.
PendingUse TakePromised(MemoryStore& store, std::uint32_t index, const PendingUse& use);
// Adds `taken` back to the sequence's promise, if the sequence still has a promise of the same
// owner.
void ReturnPromised(MemoryStore& store, std::uint32_t index, const PendingUse& taken);
// Ends the promise whose number is `number`; no effect if the sequence has another promise.
void EndPromise(MemoryStore& store, std::uint32_t index, std::uint64_t number);

}  // namespace kvd
