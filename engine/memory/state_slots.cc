#include "engine/memory/state_slots.h"

#include <algorithm>
#include <string>

#include "base/crc32c.h"
#include "engine/memory/transaction.h"

namespace kvd {
namespace {

constexpr std::uint32_t kNoScore = 0;

// The score of a checkpoint: the number of tokens between its neighbours, which is the most that a
// rewind has to replay without this checkpoint. The last checkpoint of a sequence scores highest,
// because the next removal rewinds to it.
std::uint32_t ScoreOf(std::span<const layout::Checkpoint> checkpoints, std::size_t at) {
  constexpr std::uint32_t kLast = 1u << 31;
  if (at + 1 == checkpoints.size()) return kLast + checkpoints[at].cell_count;
  const std::uint32_t before = at == 0 ? 0 : checkpoints[at - 1].cell_count;
  return checkpoints[at + 1].cell_count - before;
}

void EraseLeastUseful(std::vector<layout::Checkpoint>* checkpoints) {
  std::size_t least = 0;
  for (std::size_t at = 1; at < checkpoints->size(); ++at) {
    if (ScoreOf(*checkpoints, at) < ScoreOf(*checkpoints, least)) least = at;
  }
  checkpoints->erase(checkpoints->begin() + static_cast<std::ptrdiff_t>(least));
}

bool IsSpare(const MemoryStore& store, std::uint32_t slot) KVD_REQUIRES(store.mutex) {
  return store.tables.states.is_checkpoint_only(slot) && !store.states.is_pinned(slot);
}

// Sets slot_scores of each slot that only checkpoints use to the highest score of these
// checkpoints, and `scores` to the list of all slots' scores.
void ScoreCheckpoints(MemoryStore& store) KVD_REQUIRES(store.mutex) {
  std::ranges::fill(store.slot_scores, kNoScore);
  for (const layout::SequenceRecord& record : store.meta.sequences()) {
    if ((record.flags & layout::kSequenceLive) == 0) continue;
    const auto checkpoints = store.meta.checkpoints(record.checkpoints);
    for (std::size_t at = 0; at < checkpoints.size(); ++at) {
      std::uint32_t& score = store.slot_scores[checkpoints[at].state_slot];
      if (IsSpare(store, checkpoints[at].state_slot)) {
        score = std::max(score, ScoreOf(checkpoints, at));
      }
    }
  }
  store.scores.clear();
  for (const std::uint32_t score : store.slot_scores) {
    if (score != kNoScore) store.scores.push_back(score);
  }
}

// Drops the checkpoints of one sequence whose slots score at most score_max.
void DropVictimsOf(MemoryStore& store, std::uint32_t index, std::uint32_t score_max)
    KVD_REQUIRES(store.mutex) {
  layout::SequenceRecord record = store.meta.sequences()[index];
  const auto is_victim = [&](const layout::Checkpoint& checkpoint) {
    store.mutex.AssertHeld();
    const std::uint32_t score = store.slot_scores[checkpoint.state_slot];
    return score != kNoScore && score <= score_max;
  };
  const auto checkpoints = store.meta.checkpoints(record.checkpoints);
  const auto first = std::ranges::find_if(checkpoints, is_victim);
  if (first == checkpoints.end()) return;
  store.checkpoints.assign(checkpoints.begin(), checkpoints.end());
  std::erase_if(store.checkpoints, is_victim);
  Transaction transaction(store);
  if (Result<layout::ListRoot> root = transaction.WriteCheckpoints(store.checkpoints)) {
    record.checkpoints = *root;
  } else {  // no list units are free: the entries before the first victim are kept in place
    record.checkpoints = CutCheckpoints(store, record.checkpoints,
                                        static_cast<std::size_t>(first - checkpoints.begin()));
  }
  transaction.Put(index, record, Change::kFacts);
  (void)transaction.Commit();  // cannot fail: one record always fits
}

void DropVictims(MemoryStore& store, std::uint32_t score_max) KVD_REQUIRES(store.mutex) {
  for (std::uint32_t index = 0; index < store.geometry().sequence_capacity; ++index) {
    const layout::SequenceRecord& record = store.meta.sequences()[index];
    if ((record.flags & layout::kSequenceLive) == 0 || record.checkpoints.entry_count == 0)
      continue;
    DropVictimsOf(store, index, score_max);
  }
}

// Drops checkpoints until slots_wanted state slots are free, or until no slot is used by
// checkpoints alone.
void GiveUpCheckpoints(MemoryStore& store, std::uint32_t slots_wanted) KVD_REQUIRES(store.mutex) {
  // Scoring visits every sequence, so each round drops a few more checkpoints than necessary.
  const std::uint32_t spare = store.geometry().state_slot_count / 32;
  while (store.states.free_slots() < slots_wanted) {
    ScoreCheckpoints(store);
    std::vector<std::uint32_t>& scores = store.scores;
    if (scores.empty()) return;
    const std::size_t count =
        std::min<std::size_t>(scores.size(), slots_wanted - store.states.free_slots() + spare);
    const auto last = scores.begin() + static_cast<std::ptrdiff_t>(count) - 1;
    std::nth_element(scores.begin(), last, scores.end());
    const std::uint32_t free = store.states.free_slots();
    DropVictims(store, *last);
    // The slots of the dropped checkpoints are still pinned.
    if (store.states.free_slots() == free) return;
  }
}

}  // namespace

layout::ListRoot CutCheckpoints(const MemoryStore& store, const layout::ListRoot& root,
                                std::size_t count) {
  if (count == root.entry_count) return root;
  if (count == 0) return kEmptyList;
  layout::ListRoot cut = root;
  cut.entry_count = static_cast<std::uint32_t>(count);
  cut.crc = Crc32c(0, std::as_bytes(store.meta.checkpoints(cut)));
  return cut;
}

Result<NewState> StateAt(const MemoryStore& store, const layout::SequenceRecord& record,
                         std::uint32_t cell_count) {
  if (cell_count == record.cell_count) {
    return NewState{record.state_slot, record.logits_slot, record.checkpoints};
  }
  NewState state;
  if (!store.has_state() || cell_count == 0) return state;
  const auto checkpoints = store.meta.checkpoints(record.checkpoints);
  const auto kept = static_cast<std::size_t>(
      std::ranges::upper_bound(checkpoints, cell_count, {}, &layout::Checkpoint::cell_count) -
      checkpoints.begin());
  const std::uint32_t last = kept == 0 ? 0 : checkpoints[kept - 1].cell_count;
  if (last != cell_count) {
    return Fail(Code::kNeedsReplay, "no checkpoint of the recurrent state after ", cell_count,
                " cells: ", cell_count - last, " tokens to replay");
  }
  state.state_slot = checkpoints[kept - 1].state_slot;
  state.checkpoints = CutCheckpoints(store, record.checkpoints, kept);
  return state;
}

std::size_t CountCheckpointRoom(const MemoryStore& store, OwnerId owner) {
  const auto room = [](std::uint64_t limit, std::uint64_t used) {
    return limit - std::min(limit, used);
  };
  const SlotTable& states = store.tables.states;
  return std::min(
      room(store.segments.geometry.checkpoint_slots, states.checkpoint_slots()),
      room(LimitsOf(store, owner).checkpoint_slots, states.CountOwnedCheckpoints(owner)));
}

void CollectCheckpoints(MemoryStore& store, const layout::SequenceRecord& source,
                        std::uint32_t cell_count, std::uint32_t state_slot, OwnerId owner) {
  std::vector<layout::Checkpoint>& checkpoints = store.checkpoints;
  checkpoints.clear();
  for (const layout::Checkpoint& checkpoint : store.meta.checkpoints(source.checkpoints)) {
    if (checkpoint.cell_count <= cell_count) checkpoints.push_back(checkpoint);
  }
  const bool is_there = !checkpoints.empty() && checkpoints.back().cell_count == cell_count;
  const SlotTable& states = store.tables.states;
  if (!is_there) {
    const bool has_room = states.is_checkpoint(state_slot) ||
                          states.checkpoint_slots() < store.segments.geometry.checkpoint_slots;
    // The new checkpoint replaces one of the sequence's own checkpoints; the slot of the replaced
    // checkpoint becomes free only if no fork uses the slot.
    const bool gives_way = !has_room && checkpoints.size() >= 2;
    if (gives_way) EraseLeastUseful(&checkpoints);
    if (has_room || gives_way) checkpoints.push_back({cell_count, state_slot, {}});
    if (checkpoints.size() > kCheckpointsMax) EraseLeastUseful(&checkpoints);
  }
  TrimCheckpoints(store, owner);
}

void TrimCheckpoints(MemoryStore& store, OwnerId owner) {
  const std::uint64_t limit = LimitsOf(store, owner).checkpoint_slots;
  const SlotTable& states = store.tables.states;
  // Only checkpoints whose slots the owner does not hold yet count against the owner's limit.
  const auto count_new = [&] {
    store.mutex.AssertHeld();
    return static_cast<std::uint64_t>(
        std::ranges::count_if(store.checkpoints, [&](const layout::Checkpoint& checkpoint) {
          store.mutex.AssertHeld();
          return !states.IsOwnedCheckpoint(checkpoint.state_slot, owner);
        }));
  };
  for (std::uint64_t added = count_new();
       added > 0 && states.CountOwnedCheckpoints(owner) + added > limit; added = count_new()) {
    EraseLeastUseful(&store.checkpoints);
  }
}

bool MayKeepLogits(const MemoryStore& store, std::uint32_t slot, OwnerId owner) {
  const SlotTable& rows = store.tables.logits;
  if (slot != layout::kNoSlot && rows.IsOwned(slot, owner)) return true;
  return rows.CountOwned(owner) < LimitsOf(store, owner).logits_rows;
}

Status FindStates(MemoryStore& store, std::uint32_t wanted) {
  if (store.states.free_slots() >= wanted) return {};
  if (store.states.free_slots() + CountSpareStates(store) >= wanted) {
    GiveUpCheckpoints(store, wanted);
  }
  if (store.states.free_slots() >= wanted) return {};
  return Fail(Code::kNoSpace, store.NoStates(wanted));
}

std::uint32_t CountSpareStates(const MemoryStore& store) {
  std::uint32_t count = 0;
  for (std::uint32_t slot = 0; slot < store.geometry().state_slot_count; ++slot) {
    count += IsSpare(store, slot);
  }
  return count;
}

bool FindLogits(MemoryStore& store, OwnerId owner) {
  if (store.geometry().logits_row_count == 0) return false;
  const bool is_own = !MayKeepLogits(store, layout::kNoSlot, owner);
  const std::uint32_t capacity = store.geometry().sequence_capacity;
  const auto is_found = [&] {
    store.mutex.AssertHeld();
    return store.logits.free_slots() != 0 && MayKeepLogits(store, layout::kNoSlot, owner);
  };
  for (std::uint32_t tries = 0; tries < capacity && !is_found(); ++tries) {
    const std::uint32_t index = store.logits_victim++ % capacity;
    layout::SequenceRecord record = store.meta.sequences()[index];
    if ((record.flags & layout::kSequenceLive) == 0 || record.logits_slot == layout::kNoSlot) {
      continue;
    }
    if (is_own && HolderOf(record) != Holder{.is_held = true, .owner = owner}) continue;
    record.logits_slot = layout::kNoSlot;
    Transaction transaction(store);
    transaction.Put(index, record, Change::kFacts);
    (void)transaction.Commit();  // cannot fail: one record always fits
  }
  return is_found();
}

}  // namespace kvd
