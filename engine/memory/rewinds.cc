// Rewinding a sequence to a position without a checkpoint: the engine replays the tokens after the
// nearest earlier checkpoint, and other steps may run between the slices of the replay. One commit
// then changes the sequence's lists and state.
//
// The slots of a rewind are pinned, so neither an eviction of checkpoints nor a verb frees them for
// another use. The blocks that the replay reads are not pinned: a change of the sequence's lists
// makes the commit fail with kConflict, so a result that the replay computed from changed blocks is
// never used.
#include <algorithm>
#include <string>

#include "base/check.h"
#include "engine/memory/cell_edit.h"
#include "engine/memory/eviction.h"
#include "engine/memory/history.h"
#include "engine/memory/record_functions.h"
#include "engine/memory/recurrent_states.h"
#include "engine/memory/state_slots.h"

namespace kvd {

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
