#include "engine/memory/eviction.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "engine/memory/prefix_sync.h"
#include "engine/memory/state_slots.h"
#include "engine/memory/transaction.h"

namespace kvd {
namespace {

// By group: blocks of evicted sequences that are not free yet, because a step still reads them.
using Coming = std::array<std::uint64_t, layout::kGroupsMax>;

bool IsMet(const MemoryStore& store, const Need& need, const Coming& coming)
    KVD_REQUIRES(store.mutex) {
  for (std::uint32_t group = 0; group < store.group_count(); ++group) {
    // The blocks in `coming` become free at the end of the running step. Evicting more sequences
    // would not make blocks free earlier.
    if (store.allocators[group].free_blocks() + coming[group] < need.blocks[group]) return false;
  }
  if (store.tables.sequences.free_count() < need.sequences) return false;
  if (store.tables.lists.free_units() < need.list_units) return false;
  return need.states == 0 || store.states.free_slots() + CountSpareStates(store) >= need.states;
}

std::uint64_t CountUsedOrFree(const MemoryStore& store, std::uint32_t group)
    KVD_REQUIRES(store.mutex) {
  return std::uint64_t{store.tables.blocks[group].used_blocks()} +
         store.allocators[group].free_blocks();
}

}  // namespace

bool CanBeMet(const MemoryStore& store, const Need& need) {
  for (std::uint32_t group = 0; group < store.group_count(); ++group) {
    const std::uint64_t blocks =
        store.allocators[group].free_blocks() + store.tables.blocks[group].reclaimable_blocks();
    const std::uint64_t others = store.shares.promised_blocks[group] - need.promised[group];
    if (need.blocks[group] != 0 && blocks < need.blocks[group] + others) return false;
  }
  if (store.tables.sequences.free_count() + store.prefix.retained.size() < need.sequences)
    return false;
  return need.states == 0 || store.states.free_slots() + CountSpareStates(store) +
                                     store.tables.states.reclaimable_slots() >=
                                 need.states;
}

void MakeRoom(MemoryStore& store, const Need& need, std::array<std::uint32_t, 2> kept) {
  Coming coming = {};
  PrefixTables& prefix = store.prefix;
  if (!prefix.evicts || prefix.retained.size() == 0 || IsMet(store, need, coming) ||
      !CanBeMet(store, need)) {
    return;
  }
  std::vector<std::uint32_t> passed_over;
  while (!IsMet(store, need, coming)) {
    const std::optional<std::uint32_t> least = prefix.retained.Least(prefix.use_number);
    if (!least) break;
    const std::uint32_t index = *least;
    if (std::ranges::find(kept, index) == kept.end()) {
      Coming before = {};
      for (std::uint32_t group = 0; group < store.group_count(); ++group) {
        before[group] = CountUsedOrFree(store, group);
      }
      (void)Evict(store, index);
      for (std::uint32_t group = 0; group < store.group_count(); ++group) {
        coming[group] += before[group] - CountUsedOrFree(store, group);
      }
    }
    // A sequence that is in `kept` or could not be dropped is passed over.
    if (prefix.retained.contains(index)) {
      prefix.retained.Erase(index);
      passed_over.push_back(index);
    }
  }
  for (const std::uint32_t index : passed_over) PutInOrder(store, index);
}

void MakeRoomForLists(MemoryStore& store, std::array<std::uint32_t, 2> kept) {
  constexpr std::uint32_t kPart = 16;
  MakeRoom(store, {.list_units = store.geometry().list_unit_count / kPart}, kept);
}

bool Evict(MemoryStore& store, std::uint32_t index) {
  PrefixTables& prefix = store.prefix;
  const std::uint32_t unshared = prefix.index.CountUnshared(index);
  const std::vector<TokenId> tokens = prefix.index.Tokens(index);
  const PrefixSpace space = prefix.index.space(index);
  Transaction transaction(store);
  transaction.Free(index);
  if (!transaction.Commit()) return false;
  if (unshared > 0) prefix.evicted.Add(space, tokens);
  ++prefix.counters.evictions;
  prefix.counters.tokens_evicted += unshared;
  return true;
}

}  // namespace kvd
