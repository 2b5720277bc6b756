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

PendingUse PendingOf(const MemoryStore& store, OwnerId owner) KVD_REQUIRES(store.mutex) {
  const auto known = store.shares.pending.find(owner);
  return known == store.shares.pending.end() ? PendingUse{} : known->second;
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

Status AddPending(MemoryStore& store, const PendingUse& use) {
  store.mutex.AssertHeld();
  if (IsNothing(use)) return {};
  if (store.shares.rules != nullptr) {
    const OwnerLimits limits = LimitsOf(store, use.owner);
    const OwnerUse now = store.tables.UseOf(use.owner);
    const PendingUse pending =
        limits.counts_all ? store.shares.pending_of_all : PendingOf(store, use.owner);
    const Held all = limits.counts_all ? HeldByAll(store) : Held{now.blocks, now.state_slots};
    for (std::uint32_t group = 0; group < store.group_count(); ++group) {
      const std::uint64_t held = all.blocks[group] + pending.blocks[group];
      KVD_CHECK_OK(
          CheckOne("pool blocks", use.owner, held, held + use.blocks[group], limits.blocks[group]));
    }
    const std::uint64_t held = all.state_slots + pending.state_slots;
    KVD_CHECK_OK(
        CheckOne("state slots", use.owner, held, held + use.state_slots, limits.state_slots));
  }
  PendingUse& pending = store.shares.pending[use.owner];
  pending.owner = use.owner;
  for (PendingUse* sum : {&pending, &store.shares.pending_of_all}) {
    for (std::uint32_t group = 0; group < store.group_count(); ++group) {
      sum->blocks[group] += use.blocks[group];
    }
    sum->state_slots += use.state_slots;
  }
  return {};
}

void DropPending(MemoryStore& store, PendingUse* use) {
  store.mutex.AssertHeld();
  if (IsNothing(*use)) return;
  const auto pending = store.shares.pending.find(use->owner);
  for (PendingUse* sum : {&pending->second, &store.shares.pending_of_all}) {
    for (std::uint32_t group = 0; group < store.group_count(); ++group) {
      sum->blocks[group] -= use->blocks[group];
    }
    sum->state_slots -= use->state_slots;
  }
  if (IsNothing(pending->second)) store.shares.pending.erase(pending);
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

Result<std::uint64_t> AddPromise(MemoryStore& store, std::uint32_t index, const PendingUse& use) {
  store.mutex.AssertHeld();
  ShareBook& shares = store.shares;
  const auto known = shares.promises.find(index);
  if (known != shares.promises.end()) EndPromise(store, index, known->second.number);
  for (std::uint32_t group = 0; group < store.group_count(); ++group) {
    if (use.blocks[group] > CountUnpromised(store, group)) {
      return Fail(Code::kNoSpace, store.NoBlocks(group, use.blocks[group]));
    }
  }
  KVD_CHECK_OK(AddPending(store, use));
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
