#include "engine/memory/shares.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/text.h"
#include "engine/memory/memory_store.h"

namespace kvd {
namespace {

bool IsNothing(const PendingUse& use) {
  return use.state_slots == 0 && use.blocks == PendingUse{}.blocks;
}

Status CheckOne(const char* what, OwnerId owner, std::uint64_t before, std::uint64_t after,
                std::uint64_t limit) {
  if (after <= before || after <= limit) return {};
  return FailShare(what, owner, after - before, before, limit);
}

Status CheckGrowth(const MemoryStore& store, OwnerId owner, const OwnerUse& before,
                   const OwnerUse& after) KVD_REQUIRES(store.mutex) {
  const OwnerLimits limits = LimitsOf(store, owner);
  KVD_CHECK_OK(CheckOne("sequences", owner, before.sequences, after.sequences, limits.sequences));
  const OwnerId holder = limits.counts_all ? kNoOwner : owner;
  for (std::uint32_t group = 0; group < store.group_count(); ++group) {
    KVD_CHECK_OK(CheckOne("pool blocks", holder, before.blocks[group], after.blocks[group],
                          limits.blocks[group]));
  }
  KVD_CHECK_OK(
      CheckOne("state slots", holder, before.state_slots, after.state_slots, limits.state_slots));
  return CheckOne("list units", owner, before.list_units, after.list_units, limits.list_units);
}

// Adds `use` to `sum` `times` times; ~0 subtracts it once.
template <class Use>  // PendingUse or OwnerUse
void AddTimes(const PendingUse& use, std::uint64_t times, Use* sum) {
  for (std::size_t group = 0; group < use.blocks.size(); ++group) {
    sum->blocks[group] += times * use.blocks[group];
  }
  sum->state_slots += times * use.state_slots;
}

void CountPending(MemoryStore& store, const PendingUse& use) KVD_REQUIRES(store.mutex) {
  std::vector<PendingUse>& owners = store.shares.pending;
  auto known = std::ranges::find(owners, use.owner, &PendingUse::owner);
  if (known == owners.end()) known = owners.insert(owners.end(), PendingUse{.owner = use.owner});
  AddTimes(use, 1, &*known);
  AddTimes(use, 1, &store.shares.pending_of_all);
}

}  // namespace

std::unexpected<Error> FailShare(const char* what, OwnerId owner, std::uint64_t wanted,
                                 std::uint64_t held, std::uint64_t limit) {
  const std::string holder = owner == kNoOwner
                                 ? "all owners hold "
                                 : Concat("owner ", static_cast<std::uint64_t>(owner), " holds ");
  return Fail(Code::kNoSpace, what, ": ", wanted, " more wanted, ", holder, held, " of ", limit);
}

OwnerLimits LimitsOf(const MemoryStore& store, OwnerId owner) {
  store.mutex.AssertHeld();
  if (store.shares.rules == nullptr) return {};
  return store.shares.rules->LimitsOf(owner, store.segments.geometry);
}

OwnerUse CountedUse(const MemoryStore& store, OwnerId owner) {
  store.mutex.AssertHeld();
  OwnerUse use = store.tables.UseOf(owner);
  if (!LimitsOf(store, owner).counts_all) {
    for (std::uint32_t group = 0; group < store.group_count(); ++group) {
      use.blocks[group] += store.allocators[group].left().CountOf(owner);
    }
    use.state_slots += store.states.left().CountOf(owner);
    const auto known = std::ranges::find(store.shares.pending, owner, &PendingUse::owner);
    if (known != store.shares.pending.end()) AddTimes(*known, 1, &use);
    return use;
  }
  for (std::uint32_t group = 0; group < store.group_count(); ++group) {
    const BlockTable& blocks = store.tables.blocks[group];
    use.blocks[group] =
        blocks.used_blocks() - blocks.reclaimable_blocks() + store.allocators[group].left().count();
  }
  use.state_slots = store.tables.states.held_slots() + store.states.left().count();
  AddTimes(store.shares.pending_of_all, 1, &use);
  return use;
}

Status CheckShare(const MemoryStore& store, OwnerId owner, const OwnerUse& before) {
  store.mutex.AssertHeld();
  if (store.shares.rules == nullptr) return {};
  return CheckGrowth(store, owner, before, CountedUse(store, owner));
}

Status CheckPending(const MemoryStore& store, const PendingUse& use) {
  store.mutex.AssertHeld();
  if (store.shares.rules == nullptr || IsNothing(use)) return {};
  const OwnerUse before = CountedUse(store, use.owner);
  OwnerUse after = before;
  AddTimes(use, 1, &after);
  return CheckGrowth(store, use.owner, before, after);
}

bool ExceedsLimits(const MemoryStore& store, const PendingUse& use) {
  store.mutex.AssertHeld();
  const OwnerLimits limits = LimitsOf(store, use.owner);
  for (std::size_t group = 0; group < use.blocks.size(); ++group) {
    if (use.blocks[group] > limits.blocks[group]) return true;
  }
  return use.state_slots > limits.state_slots;
}

Status AddPending(MemoryStore& store, PendingUse* use) {
  store.mutex.AssertHeld();
  if (store.shares.rules == nullptr || IsNothing(*use)) return {};
  KVD_CHECK_OK(CheckPending(store, *use));
  CountPending(store, *use);
  use->is_counted = true;
  return {};
}

void DropPending(MemoryStore& store, PendingUse* use) {
  store.mutex.AssertHeld();
  if (!use->is_counted || IsNothing(*use)) return;
  std::vector<PendingUse>& owners = store.shares.pending;
  const auto known = std::ranges::find(owners, use->owner, &PendingUse::owner);
  KVD_ASSERT(known != owners.end());
  AddTimes(*use, ~std::uint64_t{0}, &*known);
  AddTimes(*use, ~std::uint64_t{0}, &store.shares.pending_of_all);
  if (IsNothing(*known)) {
    *known = owners.back();
    owners.pop_back();
  }
  *use = {.owner = use->owner};
}

// ---------------------------------------------------------------------------------------- promises

std::uint64_t CountUnpromised(const MemoryStore& store, std::uint32_t group) {
  store.mutex.AssertHeld();
  const std::uint64_t blocks = std::uint64_t{store.allocators[group].free_blocks()} +
                               store.tables.blocks[group].reclaimable_blocks();
  return blocks - std::min(blocks, store.shares.promised_blocks[group]);
}

std::uint64_t CountAvailable(const MemoryStore& store, std::uint32_t group) {
  store.mutex.AssertHeld();
  return std::min<std::uint64_t>(store.allocators[group].free_blocks(),
                                 CountUnpromised(store, group));
}

Result<std::uint64_t> AddPromise(MemoryStore& store, std::uint32_t index, PendingUse use) {
  store.mutex.AssertHeld();
  ShareBook& shares = store.shares;
  const auto known = shares.promises.find(index);
  if (known != shares.promises.end()) EndPromise(store, index, known->second.number);
  for (std::uint32_t group = 0; group < store.group_count(); ++group) {
    if (use.blocks[group] > CountUnpromised(store, group)) {
      return Fail(Code::kNoSpace, store.NoBlocks(group, use.blocks[group]));
    }
  }
  KVD_CHECK_OK(AddPending(store, &use));
  for (std::uint32_t group = 0; group < store.group_count(); ++group) {
    shares.promised_blocks[group] += use.blocks[group];
  }
  shares.promises[index] = {++shares.promise_number, use};
  return shares.promise_number;
}

namespace {

// The promise of the owner for the sequence; null: there is no such promise.
PendingUse* FindPromise(MemoryStore& store, std::uint32_t index, OwnerId owner)
    KVD_REQUIRES(store.mutex) {
  const auto known = store.shares.promises.find(index);
  if (known == store.shares.promises.end() || known->second.use.owner != owner) return nullptr;
  return &known->second.use;
}

}  // namespace

PendingUse TakePromised(MemoryStore& store, std::uint32_t index, const PendingUse& use) {
  store.mutex.AssertHeld();
  PendingUse taken{.owner = use.owner};
  PendingUse* const promised = FindPromise(store, index, use.owner);
  if (promised == nullptr) return taken;
  for (std::uint32_t group = 0; group < store.group_count(); ++group) {
    taken.blocks[group] = std::min(use.blocks[group], promised->blocks[group]);
    promised->blocks[group] -= taken.blocks[group];
    store.shares.promised_blocks[group] -= taken.blocks[group];
  }
  taken.state_slots = std::min(use.state_slots, promised->state_slots);
  promised->state_slots -= taken.state_slots;
  PendingUse uncounted = taken;
  uncounted.is_counted = promised->is_counted;
  DropPending(store, &uncounted);
  return taken;
}

void ReturnPromised(MemoryStore& store, std::uint32_t index, const PendingUse& taken) {
  store.mutex.AssertHeld();
  PendingUse* const promised = FindPromise(store, index, taken.owner);
  if (promised == nullptr || IsNothing(taken)) return;
  AddTimes(taken, 1, promised);
  for (std::uint32_t group = 0; group < store.group_count(); ++group) {
    store.shares.promised_blocks[group] += taken.blocks[group];
  }
  if (promised->is_counted) CountPending(store, taken);
}

void EndPromise(MemoryStore& store, std::uint32_t index, std::uint64_t number) {
  store.mutex.AssertHeld();
  const auto known = store.shares.promises.find(index);
  if (known == store.shares.promises.end() || known->second.number != number) return;
  for (std::uint32_t group = 0; group < store.group_count(); ++group) {
    store.shares.promised_blocks[group] -= known->second.use.blocks[group];
  }
  DropPending(store, &known->second.use);
  store.shares.promises.erase(known);
}

}  // namespace kvd
