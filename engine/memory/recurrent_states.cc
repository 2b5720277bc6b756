#include "engine/memory/recurrent_states.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "engine/memory/cell_edit.h"
#include "engine/memory/eviction.h"
#include "engine/memory/record_functions.h"
#include "engine/memory/state_slots.h"
#include "engine/memory/transaction.h"

namespace kvd {

// ---- recurrent states
// Checkpoints and rows of logits are caches: a sequence keeps them until their slots are needed for
// other sequences (state_slots.h).
Result<bool> RecurrentStates::KeepCheckpoint(SequenceHandle handle) {
  const MutexLock lock(store_.mutex);
  KVD_TRY(const FoundSequence found, store_.Find(handle));
  layout::SequenceRecord record = *found.record;
  if (record.state_slot == layout::kNoSlot) return false;
  CollectCheckpoints(store_, record, record.cell_count, record.state_slot, OwnerId{record.owner});
  const bool is_kept =
      !store_.checkpoints.empty() && store_.checkpoints.back().cell_count == record.cell_count;
  if (std::ranges::equal(store_.checkpoints, store_.meta.checkpoints(record.checkpoints)))
    return is_kept;
  Transaction transaction(store_);
  KVD_TRY(record.checkpoints, transaction.WriteCheckpoints(store_.checkpoints));
  transaction.Put(found.index, record, Change::kFacts);
  KVD_CHECK_OK(transaction.Commit());
  return is_kept;
}

Result<bool> RecurrentStates::KeepLogits(SequenceHandle handle, const float* row) {
  const MutexLock growth(store_.growth_mutex);
  std::uint32_t slot = layout::kNoSlot;
  {
    const MutexLock lock(store_.mutex);
    KVD_TRY(const FoundSequence found, store_.Find(handle));
    if (!FindLogits(store_, OwnerId{found.record->owner})) return false;
    slot = store_.logits.TakePinned();
  }
  Status status = store_.EnsureLogits(slot);
  if (status) {
    std::memcpy(store_.LogitsPlace(slot), row, store_.segments.geometry.logits_bytes);
  }

  const MutexLock lock(store_.mutex);
  const Result<FoundSequence> found = store_.Find(handle);
  if (status && !found) status = std::unexpected(found.error());
  // The row belongs to the cells that the sequence had at the end of its step, so the row of logits
  // is kept only if the sequence's cells have not changed since the step.
  bool is_current = false;
  if (status) {
    const SequenceFacts& facts = store_.facts[found->index];
    is_current = facts.computed_number == facts.content_number;
  }
  if (is_current) {
    layout::SequenceRecord record = *found->record;
    record.logits_slot = slot;
    Transaction transaction(store_);
    transaction.Put(found->index, record, Change::kFacts);
    status = transaction.Commit();
  }
  store_.logits.Unpin(slot, store_.tables.logits);
  if (!status) return std::unexpected(std::move(status).error());
  return is_current;
}

Result<bool> RecurrentStates::ReadLogits(SequenceHandle handle, float* row) const {
  const MutexLock lock(store_.mutex);
  KVD_TRY(const FoundSequence found, store_.Find(handle));
  if (found.record->logits_slot == layout::kNoSlot) return false;
  std::memcpy(row, store_.LogitsPlace(found.record->logits_slot),
              store_.segments.geometry.logits_bytes);
  return true;
}

// ---- rewinds
// Rewinding a sequence to a position without a checkpoint: the engine replays the tokens after the
// nearest earlier checkpoint, and other steps may run between the slices of the replay. One commit
// then changes the sequence's lists and state.
//
// The slots of a rewind are pinned, so neither an eviction of checkpoints nor a verb frees them for
// another use. The blocks that the replay reads are not pinned: a change of the sequence's lists
// makes the commit fail with kConflict, so a result that the replay computed from changed blocks is
// never used.
Status RecurrentStates::FillRewind(const layout::SequenceRecord& record, CellRange removed,
                                   Rewind* rewind) {
  for (const layout::Checkpoint& checkpoint : store_.meta.checkpoints(record.checkpoints)) {
    if (checkpoint.cell_count > removed.begin) break;
    rewind->replay_from = checkpoint.cell_count;
    rewind->state_from = checkpoint.state_slot;
  }
  rewind->removed_cells = removed.end - removed.begin;
  rewind->cell_count = record.cell_count - rewind->removed_cells;
  const SourceRange sources[] = {{&record, 0, removed.begin},
                                 {&record, removed.end, record.cell_count}};
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    GroupPart& part = rewind->groups[group];
    if (store_.is_cross(group)) {
      const ExtentView view = store_.ViewOf(record, group);
      part.extents.assign(view.entries.begin(), view.entries.end());
      part.cell_count = view.cell_count;
    } else {
      BuildRanges(store_, group, sources);
      const TransactionScratch::GroupEdit& edit = store_.scratch.edits[group];
      part.extents.resize(edit.ranges.size());
      StoreExtents(edit.ranges, edit.first_cell, part.extents.data());
      part.first_cell = edit.first_cell;
      part.cell_count = rewind->cell_count;
    }
    part.first_new_extent = static_cast<std::uint32_t>(part.extents.size());
  }
  std::uint32_t ordinal = 0;
  for (const BlockRange& range : store_.scratch.edits[0].ranges) {
    for (std::uint32_t k = 0; k < range.count; ++k, ++ordinal) {
      if (ordinal < rewind->replay_from) continue;
      const layout::CellRecord& cell = store_.meta.cells(0, range.block)[range.first + k];
      rewind->tokens.push_back(cell.token);
      rewind->positions.push_back(
          Pos{static_cast<std::int32_t>(std::int64_t{cell.stored_pos} + range.delta)});
    }
  }
  // Of all replayed tokens, the first one reaches the lowest position.
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    const std::uint32_t first = rewind->groups[group].first_cell;
    if (first == 0 || rewind->tokens.empty()) continue;
    KVD_CHECK_OK(store_.CheckWindow(group,
                                    store_.PositionIn(store_.scratch.edits[0].ranges, first - 1),
                                    rewind->positions[0].value));
  }
  return {};
}

Result<Rewind> RecurrentStates::BeginRewind(SequenceHandle handle, PosRange range,
                                            const RequestTag& tag) {
  Result<Rewind> rewind = TryBeginRewind(handle, range, tag);
  if (store_.AwaitBriefHolds(rewind)) rewind = TryBeginRewind(handle, range, tag);
  return rewind;
}

Result<Rewind> RecurrentStates::TryBeginRewind(SequenceHandle handle, PosRange range,
                                               const RequestTag& tag) {
  // The rewind is declared before the locks, so that its reservation is released after the locks
  // are unlocked.
  Rewind rewind;
  const MutexLock growth(store_.growth_mutex);
  {
    const MutexLock lock(store_.mutex);
    KVD_TRY(const FoundSequence found, store_.FindMutable(handle));
    KVD_TRY(const CellRange removed, store_.FindCells(*found.record, range));
    if (!store_.has_state() || removed.begin == removed.end) {
      return Fail(Code::kInvalidArgument, HandleText(handle), ": nothing to rewind");
    }
    rewind.applied = tag;
    rewind.handle = handle;
    rewind.range = range;
    rewind.content_number = store_.facts[found.index].content_number;
    KVD_CHECK_OK(FillRewind(*found.record, removed, &rewind));
    rewind.reservation.Open(store_);
    rewind.reservation.PauseDefragmentation();
    rewind.reservation.KeepState(rewind.state_from);
    if (store_.states.free_slots() < 2) MakeRoom(store_, {.states = 2});
    KVD_CHECK_OK(FindStates(store_, 2));
    for (std::uint32_t& slot : rewind.slots) slot = rewind.reservation.TakeState();
  }
  for (const std::uint32_t slot : rewind.slots) KVD_CHECK_OK(store_.EnsureState(slot));
  return rewind;
}

Status RecurrentStates::CommitFound(const FoundSequence& found, const Rewind& rewind) {
  const layout::SequenceRecord& old = *found.record;
  KVD_TRY(const CellRange removed, store_.FindCells(old, rewind.range));
  const auto checkpoints = store_.meta.checkpoints(old.checkpoints);
  const auto kept =
      std::ranges::upper_bound(checkpoints, removed.begin, {}, &layout::Checkpoint::cell_count);
  NewState state;
  state.state_slot = rewind.tokens.empty() ? rewind.state_from : rewind.last_slot;
  if (rewind.cell_count > 0) {
    state.checkpoints = CutCheckpoints(store_, old.checkpoints,
                                       static_cast<std::size_t>(kept - checkpoints.begin()));
  }
  const SourceRange sources[] = {{&old, 0, removed.begin}, {&old, removed.end, old.cell_count}};
  RequestTag tag = rewind.applied;
  tag.replayed = static_cast<std::uint32_t>(rewind.tokens.size());
  Transaction transaction(store_, tag);
  KVD_TRY(layout::SequenceRecord record,
          EditCells(store_, transaction,
                    {.index = found.index,
                     .sources = sources,
                     .pristine_cells = std::min(old.pristine_cells, removed.begin),
                     .state = state}));
  NoteEdit(store_, transaction, {.index = found.index, .of = &old, .cells = removed}, &record);
  transaction.Put(found.index, record, Change::kComputed);
  transaction.Answer(rewind.handle, rewind.removed_cells);
  return transaction.Commit();
}

Status RecurrentStates::CommitRewind(Rewind& rewind) {
  Status status = {};
  {
    const MutexLock lock(store_.mutex);
    KVD_ASSERT(rewind.reservation.is_open());
    const Result<FoundSequence> found = store_.Find(rewind.handle);
    if (!found || store_.facts[found->index].content_number != rewind.content_number) {
      status = Fail(Code::kConflict, HandleText(rewind.handle),
                    ": changed while its state was replayed");
    } else {
      KVD_ASSERT(rewind.done == rewind.tokens.size());
      status = CommitFound(*found, rewind);
    }
    rewind.reservation.GiveBack();
  }
  store_.ReturnUnusedSlabs();
  return status;
}

}  // namespace kvd
