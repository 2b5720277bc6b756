#include "engine/memory/shares.h"

#include <algorithm>
#include <string>

#include "engine/memory/memory_store.h"

namespace kvd {
namespace {

bool IsNothing(const PendingUse& use) {
  return use.state_slots == 0 && use.blocks == PendingUse{}.blocks;
}

Status CheckOne(const char* what, OwnerId owner, std::uint64_t before, std::uint64_t after,
                std::uint64_t limit) {
  if (after <= before || after <= limit) return {};
  return Fail(Code::kNoSpace, std::string(what) + ": " + std::to_string(after - before) +
                                  " more wanted, uid " +
                                  std::to_string(static_cast<std::uint64_t>(owner)) + " holds " +
                                  std::to_string(before) + " of " + std::to_string(limit));
}

// Adds `times` the use; ~0: takes it away.
void AddTimes(const MemoryStore& store, const PendingUse& use, std::uint64_t times, PendingUse* sum)
    KVD_REQUIRES(store.mutex) {
  for (std::uint32_t group = 0; group < store.group_count(); ++group) {
    sum->blocks[group] += times * use.blocks[group];
  }
  sum->state_slots += times * use.state_slots;
}

PendingUse PendingOf(const MemoryStore& store, OwnerId owner) KVD_REQUIRES(store.mutex) {
  const auto known = std::ranges::find(store.shares.pending, owner, &PendingUse::owner);
  return known == store.shares.pending.end() ? PendingUse{} : *known;
}

// A pending use that is checked beside what is held: blocks and state slots, by whom they are counted.
struct Held {
  std::array<std::uint64_t, layout::kGroupsMax> blocks = {};
  std::uint64_t state_slots = 0;
};

Held HeldByAll(const MemoryStore& store) KVD_REQUIRES(store.mutex) {
  Held held;
  for (std::uint32_t group = 0; group < store.group_count(); ++group) {
    const BlockTable& blocks = store.tables.blocks[group];
    held.blocks[group] = blocks.used_blocks() - blocks.reclaimable_blocks();
  }
  held.state_slots = store.tables.states.held_slots();
  return held;
}

}  // namespace

OwnerLimits LimitsOf(const MemoryStore& store, OwnerId owner) {
  store.mutex.AssertHeld();
  if (store.shares.rules == nullptr) return {};
  return store.shares.rules->LimitsOf(owner, store.segments.geometry);
}

Status CheckShare(const MemoryStore& store, OwnerId owner, const OwnerUse& before) {
  store.mutex.AssertHeld();
  if (store.shares.rules == nullptr) return {};
  const OwnerLimits limits = LimitsOf(store, owner);
  const OwnerUse now = store.tables.UseOf(owner);
  const PendingUse pending =
      limits.counts_all ? store.shares.pending_of_all : PendingOf(store, owner);
  const Held all = limits.counts_all ? HeldByAll(store) : Held{now.blocks, now.state_slots};
  KVD_CHECK_OK(CheckOne("sequences", owner, before.sequences, now.sequences, limits.sequences));
  for (std::uint32_t group = 0; group < store.group_count(); ++group) {
    const std::uint64_t more = now.blocks[group] - before.blocks[group];
    if (now.blocks[group] <= before.blocks[group]) continue;
    const std::uint64_t after = all.blocks[group] + pending.blocks[group];
    KVD_CHECK_OK(CheckOne("pool blocks", owner, after - more, after, limits.blocks[group]));
  }
  if (now.state_slots > before.state_slots) {
    const std::uint64_t after = all.state_slots + pending.state_slots;
    KVD_CHECK_OK(CheckOne("state slots", owner, after - (now.state_slots - before.state_slots),
                          after, limits.state_slots));
  }
  return CheckOne("list units", owner, before.list_units, now.list_units, limits.list_units);
}

Status AddPending(MemoryStore& store, PendingUse* use) {
  store.mutex.AssertHeld();
  if (store.shares.rules == nullptr || IsNothing(*use)) return {};
  const OwnerLimits limits = LimitsOf(store, use->owner);
  const OwnerUse now = store.tables.UseOf(use->owner);
  const PendingUse pending =
      limits.counts_all ? store.shares.pending_of_all : PendingOf(store, use->owner);
  const Held all = limits.counts_all ? HeldByAll(store) : Held{now.blocks, now.state_slots};
  for (std::uint32_t group = 0; group < store.group_count(); ++group) {
    const std::uint64_t held = all.blocks[group] + pending.blocks[group];
    KVD_CHECK_OK(
        CheckOne("pool blocks", use->owner, held, held + use->blocks[group], limits.blocks[group]));
  }
  const std::uint64_t held = all.state_slots + pending.state_slots;
  KVD_CHECK_OK(
      CheckOne("state slots", use->owner, held, held + use->state_slots, limits.state_slots));
  std::vector<PendingUse>& owners = store.shares.pending;
  auto known = std::ranges::find(owners, use->owner, &PendingUse::owner);
  if (known == owners.end()) known = owners.insert(owners.end(), PendingUse{.owner = use->owner});
  AddTimes(store, *use, 1, &*known);
  AddTimes(store, *use, 1, &store.shares.pending_of_all);
  use->is_counted = true;
  return {};
}

void DropPending(MemoryStore& store, PendingUse* use) {
  store.mutex.AssertHeld();
  if (use->is_counted && !IsNothing(*use)) {
    std::vector<PendingUse>& owners = store.shares.pending;
    const auto known = std::ranges::find(owners, use->owner, &PendingUse::owner);
    AddTimes(store, *use, ~std::uint64_t{0}, &*known);
    AddTimes(store, *use, ~std::uint64_t{0}, &store.shares.pending_of_all);
    if (IsNothing(*known)) {
      *known = owners.back();
      owners.pop_back();
    }
  }
  *use = {.owner = use->owner};
}

// ---------------------------------------------------------------------------------------- promises

namespace {

// Free and reclaimable blocks that are promised to nobody.
std::uint64_t CountUnpromised(const MemoryStore& store, std::uint32_t group)
    KVD_REQUIRES(store.mutex) {
  const std::uint64_t blocks = std::uint64_t{store.allocators[group].free_blocks()} +
                               store.tables.blocks[group].reclaimable_blocks();
  return blocks - std::min(blocks, store.shares.promised_blocks[group]);
}

}  // namespace

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

PendingUse TakePromised(MemoryStore& store, std::uint32_t index, const PendingUse& use) {
  store.mutex.AssertHeld();
  PendingUse taken{.owner = use.owner};
  const auto known = store.shares.promises.find(index);
  if (known == store.shares.promises.end() || known->second.use.owner != use.owner) return taken;
  PendingUse& promised = known->second.use;
  for (std::uint32_t group = 0; group < store.group_count(); ++group) {
    taken.blocks[group] = std::min(use.blocks[group], promised.blocks[group]);
    promised.blocks[group] -= taken.blocks[group];
    store.shares.promised_blocks[group] -= taken.blocks[group];
  }
  taken.state_slots = std::min(use.state_slots, promised.state_slots);
  promised.state_slots -= taken.state_slots;
  PendingUse uncounted = taken;
  uncounted.is_counted = promised.is_counted;
  DropPending(store, &uncounted);
  return taken;
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
