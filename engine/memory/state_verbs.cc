// Recurrent state: slots of the pool that records and checkpoints refer to, and rows of logits.
//
// A committed slot is as immutable as a cell. So keeping a checkpoint, forking and going back to a
// checkpoint write references and nothing else. Checkpoints and rows of logits are a cache: they
// are given up when room is needed.
#include <algorithm>
#include <cstring>
#include <string>

#include "engine/memory/record_functions.h"
#include "engine/memory/unified_memory.h"
#include "shm/check.h"

namespace kvd {
namespace {

constexpr std::uint32_t kNoScore = 0;

// How much is lost without the checkpoint: the tokens between its neighbours. The last one of a
// sequence, which the next removal goes back to, counts more than any other.
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

}  // namespace

std::byte* UnifiedMemory::StateBytes(std::uint32_t slot) {
  KVD_ASSERT(slot < meta_.geometry().state_slot_count);
  return state_places().bytes(slot);
}

std::byte* UnifiedMemory::LogitsBytes(std::uint32_t slot) {
  KVD_ASSERT(slot < meta_.geometry().logits_row_count);
  return logits_places().bytes(slot);
}

Result<UnifiedMemory::NewState> UnifiedMemory::StateAt(const layout::SequenceRecord& record,
                                                       std::uint32_t cell_count) const {
  if (cell_count == record.cell_count) {
    return NewState{record.state_slot, record.logits_slot, record.checkpoints};
  }
  NewState state;
  if (!has_state() || cell_count == 0) return state;
  const auto checkpoints = meta_.checkpoints(record.checkpoints);
  const auto kept = static_cast<std::size_t>(
      std::ranges::upper_bound(checkpoints, cell_count, {}, &layout::Checkpoint::cell_count) -
      checkpoints.begin());
  const std::uint32_t last = kept == 0 ? 0 : checkpoints[kept - 1].cell_count;
  if (last != cell_count) {
    return Fail(Code::kNeedsReplay, "the recurrent state behind " + std::to_string(cell_count) +
                                        " cells is no checkpoint: " +
                                        std::to_string(cell_count - last) + " tokens to replay");
  }
  state.state_slot = checkpoints[kept - 1].state_slot;
  state.checkpoints = CutCheckpoints(record.checkpoints, kept);
  return state;
}

// ------------------------------------------------------------------------------------- checkpoints

void UnifiedMemory::CollectCheckpoints(const layout::SequenceRecord& source,
                                       std::uint32_t cell_count, std::uint32_t state_slot) {
  checkpoints_.clear();
  for (const layout::Checkpoint& checkpoint : meta_.checkpoints(source.checkpoints)) {
    if (checkpoint.cell_count <= cell_count) checkpoints_.push_back(checkpoint);
  }
  if (!checkpoints_.empty() && checkpoints_.back().cell_count == cell_count) return;
  const bool has_room = tables_.states.is_checkpoint(state_slot) ||
                        tables_.states.checkpoint_slots() < segments_.geometry.checkpoint_slots;
  if (!has_room) {
    // One of its own gives way; it frees a slot only if no fork holds it too.
    if (checkpoints_.size() < 2) return;
    EraseLeastUseful(&checkpoints_);
  }
  checkpoints_.push_back({cell_count, state_slot, {}});
  if (checkpoints_.size() > kCheckpointsMax) EraseLeastUseful(&checkpoints_);
}

Result<bool> UnifiedMemory::KeepCheckpoint(SequenceHandle handle) {
  const MutexLock lock(mutex_);
  KVD_TRY(const Found found, Find(handle));
  const layout::SequenceRecord old = *found.record;
  if (old.state_slot == layout::kNoSlot) return false;
  CollectCheckpoints(old, old.cell_count, old.state_slot);
  const bool is_kept = !checkpoints_.empty() && checkpoints_.back().cell_count == old.cell_count;
  if (std::ranges::equal(checkpoints_, meta_.checkpoints(old.checkpoints))) return is_kept;
  layout::SequenceRecord record = old;
  KVD_TRY(record.checkpoints, WriteCheckpoints(checkpoints_));
  ++record.edit_number;
  if (Status status = CommitRecord(found.index, record); !status) {
    FreeList(record.checkpoints);
    return std::unexpected(std::move(status).error());
  }
  FreeList(old.checkpoints);
  SettleFreed();
  return is_kept;
}

Status UnifiedMemory::FindStates(std::uint32_t wanted, bool may_evict) {
  if (states_.free_slots() >= wanted) return {};
  if (may_evict) MakeRoom({.states = wanted});
  if (states_.free_slots() + CountSpareStates() >= wanted) GiveUpCheckpoints(wanted);
  if (states_.free_slots() >= wanted) return {};
  return Fail(Code::kNoSpace, NoStates(wanted));
}

std::uint32_t UnifiedMemory::CountSpareStates() const {
  std::uint32_t count = 0;
  for (std::uint32_t slot = 0; slot < meta_.geometry().state_slot_count; ++slot) {
    count += tables_.states.is_checkpoint_only(slot) && !states_.is_pinned(slot);
  }
  return count;
}

std::string UnifiedMemory::NoStates(std::uint64_t needed) const {
  return "state slots: " + std::to_string(needed) + " needed, " +
         std::to_string(states_.free_slots()) + " free of " +
         std::to_string(meta_.geometry().state_slot_count) + ", " +
         std::to_string(tables_.states.reclaimable_slots()) + " reclaimable";
}

void UnifiedMemory::GiveUpCheckpoints(std::uint32_t slots_wanted) {
  // A look at every sequence is dear, so a few more are given up than are wanted now.
  const std::uint32_t spare = meta_.geometry().state_slot_count / 32;
  while (states_.free_slots() < slots_wanted) {
    ScoreCheckpoints();
    if (scores_.empty()) return;
    const std::size_t count =
        std::min<std::size_t>(scores_.size(), slots_wanted - states_.free_slots() + spare);
    const auto last = scores_.begin() + static_cast<std::ptrdiff_t>(count) - 1;
    std::nth_element(scores_.begin(), last, scores_.end());
    const std::uint32_t free = states_.free_slots();
    DropVictims(*last);
    if (states_.free_slots() == free) return;  // what was given up is still read
  }
}

// slot_scores_ = per slot that checkpoints alone hold, what its most useful holder would lose;
// scores_ = all of those.
void UnifiedMemory::ScoreCheckpoints() {
  std::ranges::fill(slot_scores_, kNoScore);
  for (const layout::SequenceRecord& record : meta_.sequences()) {
    if ((record.flags & layout::kSequenceLive) == 0) continue;
    const auto checkpoints = meta_.checkpoints(record.checkpoints);
    for (std::size_t at = 0; at < checkpoints.size(); ++at) {
      std::uint32_t& score = slot_scores_[checkpoints[at].state_slot];
      if (tables_.states.is_checkpoint_only(checkpoints[at].state_slot) &&
          !states_.is_pinned(checkpoints[at].state_slot)) {
        score = std::max(score, ScoreOf(checkpoints, at));
      }
    }
  }
  scores_.clear();
  for (const std::uint32_t score : slot_scores_) {
    if (score != kNoScore) scores_.push_back(score);
  }
}

void UnifiedMemory::DropVictims(std::uint32_t score_max) {
  for (std::uint32_t index = 0; index < meta_.geometry().sequence_capacity; ++index) {
    const layout::SequenceRecord old = meta_.sequences()[index];
    if ((old.flags & layout::kSequenceLive) == 0 || old.checkpoints.entry_count == 0) continue;
    const auto is_victim = [&](const layout::Checkpoint& checkpoint) {
      mutex_.AssertHeld();
      const std::uint32_t score = slot_scores_[checkpoint.state_slot];
      return score != kNoScore && score <= score_max;
    };
    const auto checkpoints = meta_.checkpoints(old.checkpoints);
    const auto first = std::ranges::find_if(checkpoints, is_victim);
    if (first == checkpoints.end()) continue;
    checkpoints_.assign(checkpoints.begin(), checkpoints.end());
    std::erase_if(checkpoints_, is_victim);
    layout::SequenceRecord record = old;
    if (Result<layout::ListRoot> root = WriteCheckpoints(checkpoints_)) {
      record.checkpoints = *root;
    } else {  // no room for another list: its first entries can stay where they are
      record.checkpoints =
          CutCheckpoints(old.checkpoints, static_cast<std::size_t>(first - checkpoints.begin()));
    }
    ++record.edit_number;
    if (!CommitRecord(index, record)) {
      FreeReplaced(record.checkpoints, old.checkpoints);
      continue;
    }
    FreeReplaced(old.checkpoints, record.checkpoints);
    SettleFreed();
  }
}

// ------------------------------------------------------------------------------------------ logits

Result<bool> UnifiedMemory::KeepLogits(SequenceHandle handle, const float* row) {
  const MutexLock growth(growth_mutex_);
  std::uint32_t slot = layout::kNoSlot;
  {
    const MutexLock lock(mutex_);
    KVD_CHECK_OK(Find(handle));
    if (logits_.free_slots() == 0) GiveUpLogits();
    if (logits_.free_slots() == 0) return false;
    slot = logits_.TakePinned();
  }
  Status status = EnsureLogits(slot);
  if (status) std::memcpy(logits_places().bytes(slot), row, segments_.geometry.logits_bytes);

  const MutexLock lock(mutex_);
  const Result<Found> found = Find(handle);
  if (status && !found) status = std::unexpected(found.error());
  // The row belongs to the cells that the sequence had at the end of its step.
  const bool is_current =
      status && computed_numbers_[found->index] == content_numbers_[found->index];
  if (is_current) {
    layout::SequenceRecord record = *found->record;
    record.logits_slot = slot;
    ++record.edit_number;
    status = CommitRecord(found->index, record);
    SettleFreed();
  }
  logits_.Unpin(slot, tables_.logits);
  if (!status) return std::unexpected(std::move(status).error());
  return is_current;
}

void UnifiedMemory::GiveUpLogits() {
  const std::uint32_t capacity = meta_.geometry().sequence_capacity;
  for (std::uint32_t tries = 0; tries < capacity && logits_.free_slots() == 0; ++tries) {
    const std::uint32_t index = logits_victim_++ % capacity;
    layout::SequenceRecord record = meta_.sequences()[index];
    if ((record.flags & layout::kSequenceLive) == 0 || record.logits_slot == layout::kNoSlot) {
      continue;
    }
    record.logits_slot = layout::kNoSlot;
    ++record.edit_number;
    if (!CommitRecord(index, record)) return;
    SettleFreed();
  }
}

Result<bool> UnifiedMemory::ReadLogits(SequenceHandle handle, float* row) const {
  const MutexLock lock(mutex_);
  KVD_TRY(const Found found, Find(handle));
  if (found.record->logits_slot == layout::kNoSlot) return false;
  std::memcpy(row, logits_places().bytes(found.record->logits_slot),
              segments_.geometry.logits_bytes);
  return true;
}

}  // namespace kvd
