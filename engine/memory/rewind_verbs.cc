// Going back where no checkpoint is: the tokens behind the nearest one are replayed by the engine,
// other steps in between; then list and state change in one commit.
//
// The slots of a rewind are pinned: neither a checkpoint that is given up meanwhile nor a verb
// hands them to anyone else. Its blocks are not: whoever changes the list makes the commit a
// conflict, so what the replay reads of it then does not matter.
#include <algorithm>
#include <string>

#include "engine/memory/record_functions.h"
#include "engine/memory/unified_memory.h"
#include "shm/check.h"

namespace kvd {

Status UnifiedMemory::FillRewind(const layout::SequenceRecord& record, CellRange removed,
                                 Rewind* rewind) {
  for (const layout::Checkpoint& checkpoint : meta_.checkpoints(record.checkpoints)) {
    if (checkpoint.cell_count > removed.begin) break;
    rewind->replay_from = checkpoint.cell_count;
    rewind->state_from = checkpoint.state_slot;
  }
  rewind->removed_cells = removed.end - removed.begin;
  rewind->cell_count = record.cell_count - rewind->removed_cells;
  const Segment segments[] = {{&record, 0, removed.begin},
                              {&record, removed.end, record.cell_count}};
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    GroupPart& part = rewind->groups[group];
    if (is_cross(group)) {
      const ExtentView view = ViewOf(record, group);
      part.extents.assign(view.entries.begin(), view.entries.end());
      part.cell_count = view.cell_count;
    } else {
      BuildPieces(group, segments);
      const GroupEdit& edit = edits_[group];
      part.extents.resize(edit.new_pieces.size());
      StoreExtents(edit.new_pieces, edit.first_cell, part.extents.data());
      part.first_cell = edit.first_cell;
      part.cell_count = rewind->cell_count;
    }
    part.first_new_extent = static_cast<std::uint32_t>(part.extents.size());
  }
  std::uint32_t ordinal = 0;
  for (const Piece& piece : edits_[0].new_pieces) {
    for (std::uint32_t k = 0; k < piece.count; ++k, ++ordinal) {
      if (ordinal < rewind->replay_from) continue;
      const layout::CellRecord& cell = meta_.cells(0, piece.block)[piece.first + k];
      rewind->tokens.push_back(cell.token);
      rewind->positions.push_back(
          Pos{static_cast<std::int32_t>(std::int64_t{cell.stored_pos} + piece.delta)});
    }
  }
  // The first replayed token looks back furthest.
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    const std::uint32_t first = rewind->groups[group].first_cell;
    if (first == 0 || rewind->tokens.empty()) continue;
    KVD_CHECK_OK(CheckWindow(group, PositionIn(edits_[0].new_pieces, first - 1),
                             rewind->positions[0].value));
  }
  return {};
}

Status UnifiedMemory::BeginRewind(SequenceHandle handle, PosRange range, Rewind* rewind) {
  Status status = TryBeginRewind(handle, range, rewind);
  if (AwaitBriefHolds(status)) status = TryBeginRewind(handle, range, rewind);
  return status;
}

Status UnifiedMemory::TryBeginRewind(SequenceHandle handle, PosRange range, Rewind* rewind) {
  const MutexLock growth(growth_mutex_);
  {
    const MutexLock lock(mutex_);
    KVD_TRY(const Found found, FindMutable(handle));
    KVD_TRY(const CellRange removed, FindCells(*found.record, range));
    if (!has_state() || removed.begin == removed.end) {
      return Fail(Code::kInvalidArgument, HandleText(handle) + ": nothing to go back for");
    }
    const AppliedRequest applied = rewind->applied;
    *rewind = {};
    rewind->applied = applied;
    rewind->handle = handle;
    rewind->range = range;
    rewind->content_number = content_numbers_[found.index];
    KVD_CHECK_OK(FillRewind(*found.record, removed, rewind));
    states_.Pin(rewind->state_from);
    if (Status status = FindStates(2, /*may_evict=*/true); !status) {
      states_.Unpin(rewind->state_from, tables_.states);
      rewind->state_from = layout::kNoSlot;
      return status;
    }
    for (std::uint32_t& slot : rewind->slots) slot = states_.TakePinned();
    ++open_rewinds_;
  }
  for (const std::uint32_t slot : rewind->slots) {
    if (Status status = EnsureState(slot); !status) {
      AbandonRewind(*rewind);
      return status;
    }
  }
  return {};
}

void UnifiedMemory::ReleaseRewind(Rewind* rewind) {
  for (const std::uint32_t slot : rewind->slots) states_.Unpin(slot, tables_.states);
  states_.Unpin(rewind->state_from, tables_.states);
  --open_rewinds_;
  rewind->slots = {layout::kNoSlot, layout::kNoSlot};
  rewind->state_from = layout::kNoSlot;
}

void UnifiedMemory::AbandonRewind(Rewind& rewind) {
  const MutexLock lock(mutex_);
  ReleaseRewind(&rewind);
}

Status UnifiedMemory::CommitRewind(Rewind& rewind) {
  Status status = {};
  {
    const MutexLock lock(mutex_);
    AppliedRequest applied = rewind.applied;
    applied.replayed = static_cast<std::uint32_t>(rewind.tokens.size());
    const Applying applying(this, applied);
    const Result<Found> found = Find(rewind.handle);
    if (!found || content_numbers_[found->index] != rewind.content_number) {
      status = Fail(Code::kConflict,
                    HandleText(rewind.handle) + ": changed while its state was computed again");
    } else {
      KVD_ASSERT(rewind.done == rewind.tokens.size());
      const layout::SequenceRecord& record = *found->record;
      const CellRange removed = *FindCells(record, rewind.range);
      const auto checkpoints = meta_.checkpoints(record.checkpoints);
      const auto kept =
          std::ranges::upper_bound(checkpoints, removed.begin, {}, &layout::Checkpoint::cell_count);
      NewState state;
      state.state_slot = rewind.tokens.empty() ? rewind.state_from : rewind.last_slot;
      if (rewind.cell_count > 0) {
        state.checkpoints = CutCheckpoints(record.checkpoints,
                                           static_cast<std::size_t>(kept - checkpoints.begin()));
      }
      const Segment segments[] = {{&record, 0, removed.begin},
                                  {&record, removed.end, record.cell_count}};
      status = ReplaceLists(found->index, segments, std::min(record.pristine_cells, removed.begin),
                            state, rewind.removed_cells);
      if (status) computed_numbers_[found->index] = content_numbers_[found->index];
    }
    ReleaseRewind(&rewind);
  }
  ReturnUnusedSlabs();
  return status;
}

}  // namespace kvd
