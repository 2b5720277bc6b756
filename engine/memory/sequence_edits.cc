// Edits of ranges of positions. All of them turn the sequence's pieces into other pieces; none
// touches the pool.
//
// Stored positions are never negative, and neither are effective ones. So a delta, the difference
// of both, fits 32 bits however many shifts it is the sum of: a shift checks where the cells end up
// and no more.
#include <algorithm>
#include <limits>
#include <string>

#include "engine/memory/record_functions.h"
#include "engine/memory/unified_memory.h"
#include "shm/check.h"
#include "shm/crc32c.h"

namespace kvd {
namespace {

constexpr std::int64_t kLastPos = std::numeric_limits<std::int32_t>::max() - 1;

}  // namespace

Result<std::uint32_t> UnifiedMemory::RemoveRange(SequenceHandle handle, PosRange range,
                                                 const AppliedRequest& applied) {
  std::uint32_t removed = 0;
  {
    const MutexLock lock(mutex_);
    const Applying applying(this, applied);
    KVD_TRY(const Found found, FindMutable(handle));
    KVD_TRY(const CellRange cells, FindCells(*found.record, range));
    if (cells.begin == cells.end) {
      KVD_CHECK_OK(CommitNothing(handle));
      return removed;
    }
    removed = cells.end - cells.begin;
    const std::uint32_t cell_count = found.record->cell_count;
    MakeRoomForLists({found.index, layout::kNoSlot});
    if (cells.end == cell_count) {
      KVD_CHECK_OK(CutTail(found.index, cells.begin));
    } else {
      if (has_state()) {
        return Fail(Code::kNeedsReplay, HandleText(handle) + ": the " +
                                            std::to_string(cell_count - cells.end) +
                                            " tokens behind the range must be replayed");
      }
      const Segment segments[] = {{found.record, 0, cells.begin},
                                  {found.record, cells.end, cell_count}};
      KVD_CHECK_OK(ReplaceLists(found.index, segments,
                                std::min(found.record->pristine_cells, cells.begin), NewState{},
                                removed));
    }
  }
  ReturnUnusedSlabs();
  return removed;
}

Status UnifiedMemory::Clear(SequenceHandle handle, const AppliedRequest& applied) {
  KVD_CHECK_OK(RemoveRange(handle, PosRange{}, applied));
  return {};
}

Status UnifiedMemory::CutTail(std::uint32_t index, std::uint32_t cell_count,
                              std::uint32_t flags_set) {
  const layout::SequenceRecord old = meta_.sequences()[index];
  layout::SequenceRecord record = old;
  record.flags |= flags_set;
  record.cell_count = cell_count;
  record.next_pos = 0;
  if (cell_count > 0) {
    record.next_pos = static_cast<std::int32_t>(CellsOf(old).PositionAt(cell_count - 1)) + 1;
  }
  KVD_TRY(const NewState state, StateAt(old, cell_count));
  record.state_slot = state.state_slot;
  record.logits_slot = state.logits_slot;
  record.checkpoints = state.checkpoints;
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    if (is_cross(group)) continue;
    const ExtentView view = ViewOf(old, group);
    GroupEdit& edit = edits_[group];
    edit.old_pieces.clear();
    edit.new_pieces.clear();
    // The first entries of the list are the new list: entries behind entry_count are not committed.
    layout::ListRoot& root = record.extents[group];
    std::uint32_t recounted_from = old.first_cell[group];  // a cell of the extent that is cut
    if (cell_count <= old.first_cell[group]) {
      root = kEmptyList;
      record.first_cell[group] = cell_count;
    } else {
      root.entry_count = static_cast<std::uint32_t>(FindExtent(view, cell_count - 1)) + 1;
      if (root.entry_count != old.extents[group].entry_count) {
        root.crc = Crc32c(0, std::as_bytes(meta_.entries(root)));
      }
      recounted_from = view.entries[root.entry_count - 1].start;
      AppendCells(&edit.new_pieces, view, recounted_from, cell_count);
    }
    if (cell_count > 0 && record.first_cell[group] > 0) {
      const std::int64_t last_dropped = CellsOf(old).PositionAt(record.first_cell[group] - 1);
      KVD_CHECK_OK(CheckWindow(group, last_dropped, record.next_pos));
    }
    AppendCells(&edit.old_pieces, view, recounted_from, old.cell_count);
  }
  SetPristine(&record, old.pristine_cells);
  EndRequest(&record);
  ++record.edit_number;
  KVD_CHECK_OK(CommitRecord(index, record, old.cell_count - cell_count));
  ++content_numbers_[index];
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    if (is_cross(group)) continue;
    RecountPieces(group, holders_[index]);
    FreeReplaced(old.extents[group], record.extents[group]);
  }
  FreeReplaced(old.checkpoints, record.checkpoints);
  FollowFlags(index);
  SettleFreed();
  return {};
}

Status UnifiedMemory::CheckCross(const layout::SequenceRecord& from,
                                 const layout::SequenceRecord& to) const {
  if (to.cross_cells == 0 && to.cell_count == 0) return {};
  const std::uint32_t group = meta_.geometry().cross_group;
  const ExtentView a = ViewOf(from, group);
  const ExtentView b = ViewOf(to, group);
  if (a.cell_count == b.cell_count &&
      std::equal(a.entries.begin(), a.entries.end(), b.entries.begin(), b.entries.end())) {
    return {};
  }
  return Fail(Code::kUnsupported, "copy: the destination has another encoded text");
}

Result<std::uint32_t> UnifiedMemory::CopyRange(SequenceHandle source, SequenceHandle destination,
                                               PosRange range, const AppliedRequest& applied) {
  const MutexLock lock(mutex_);
  const Applying applying(this, applied);
  if (source == destination) {
    return Fail(Code::kInvalidArgument,
                HandleText(source) + ": source and destination are the same");
  }
  KVD_TRY(const Found from, Find(source));
  KVD_TRY(const Found to, FindMutable(destination));
  KVD_TRY(const CellRange copied, FindCells(*from.record, range));
  const std::uint32_t copied_count = copied.end - copied.begin;
  if (copied_count == 0) {
    KVD_CHECK_OK(CommitNothing(destination));
    return copied_count;
  }
  MakeRoomForLists({from.index, to.index});
  NoteUse(from.index);
  const layout::SequenceRecord& old = *to.record;

  const CellList source_cells = CellsOf(*from.record);
  const CellList cells = CellsOf(old);
  if (has_state() && (copied.begin != 0 || old.cell_count != 0)) {
    return Fail(Code::kUnsupported,
                "copying into a sequence with cells, or cells that do not begin with the source's "
                "first: a recurrent state cannot be put together");
  }
  const std::int64_t first = source_cells.PositionAt(copied.begin);
  const std::int64_t last = source_cells.PositionAt(copied.end - 1);
  const std::uint32_t at = cells.LowerBound(first);
  if (at != cells.LowerBound(last + 1)) {
    return Fail(Code::kExists, HandleText(destination) + ": has position " +
                                   std::to_string(cells.PositionAt(at)) + " inside the copied " +
                                   std::to_string(first) + " to " + std::to_string(last));
  }
  constexpr std::uint32_t kCellsMax = std::numeric_limits<std::int32_t>::max();
  if (copied_count > kCellsMax - old.cell_count) {
    return Fail(Code::kNoSpace, "cells of one sequence: more than " + std::to_string(kCellsMax));
  }
  NewState state;
  if (has_state()) {
    KVD_TRY(state, StateAt(*from.record, copied.end));
  }
  if (meta_.geometry().cross_group != layout::kNoSlot) {
    KVD_CHECK_OK(CheckCross(*from.record, old));
  }

  // Into an empty sequence the source's first cells stay what they are: the pristine part of a
  // prefix is a pristine prefix.
  const bool is_prefix = old.cell_count == 0 && copied.begin == 0;
  const std::uint32_t pristine = is_prefix ? std::min(from.record->pristine_cells, copied_count)
                                           : std::min(old.pristine_cells, at);
  if (has_state()) {
    CollectCheckpoints(*from.record, copied.end, state.state_slot);
    KVD_TRY(state.checkpoints, WriteCheckpoints(checkpoints_));
  }
  const Segment segments[] = {
      {&old, 0, at}, {from.record, copied.begin, copied.end}, {&old, at, old.cell_count}};
  KVD_CHECK_OK(ReplaceLists(to.index, segments, pristine, state, copied_count, from.record));
  return copied_count;
}

Status UnifiedMemory::AddPositions(SequenceHandle handle, PosRange range, std::int32_t delta,
                                   const AppliedRequest& applied) {
  const MutexLock lock(mutex_);
  const Applying applying(this, applied);
  KVD_TRY(const Found found, FindMutable(handle));
  KVD_TRY(const CellRange shifted, FindCells(*found.record, range));
  if (shifted.begin == shifted.end || delta == 0) return CommitNothing(handle);
  MakeRoomForLists({found.index, layout::kNoSlot});

  const CellList cells = CellsOf(*found.record);
  const std::int64_t first = cells.PositionAt(shifted.begin) + delta;
  const std::int64_t last = cells.PositionAt(shifted.end - 1) + delta;
  if (first < 0 || last > kLastPos) {
    return Fail(Code::kInvalidArgument, "delta: " + std::to_string(delta) + " moves positions to " +
                                            std::to_string(first) + " to " + std::to_string(last) +
                                            ", must be 0 to " + std::to_string(kLastPos));
  }
  if ((shifted.begin > 0 && cells.PositionAt(shifted.begin - 1) >= first) ||
      (shifted.end < cells.view.cell_count && cells.PositionAt(shifted.end) <= last)) {
    return Fail(Code::kInvalidArgument, "delta: " + std::to_string(delta) + " moves positions to " +
                                            std::to_string(first) + " to " + std::to_string(last) +
                                            ", onto or past cells outside of the range");
  }

  KVD_TRY(const bool shifted_whole, ShiftWholeExtents(found, shifted, delta));
  if (shifted_whole) return {};
  const layout::SequenceRecord& old = *found.record;
  const Segment segments[] = {{&old, 0, shifted.begin},
                              {&old, shifted.begin, shifted.end, delta},
                              {&old, shifted.end, old.cell_count}};
  return ReplaceLists(found.index, segments, std::min(old.pristine_cells, shifted.begin),
                      {old.state_slot, layout::kNoSlot, old.checkpoints});
}

Result<bool> UnifiedMemory::ShiftWholeExtents(const Found& found, CellRange shifted,
                                              std::int32_t delta) {
  if (group_count() != 1) return false;
  const layout::SequenceRecord old = *found.record;
  const ExtentView view = ViewOf(old);
  const std::size_t first = FindExtent(view, shifted.begin);
  const std::size_t last = FindExtent(view, shifted.end - 1);
  if (view.entries[first].start != shifted.begin || view.EndOf(last) != shifted.end) return false;
  // The entries on both sides keep their deltas and could become one with a shifted neighbour.
  const auto joins = [&](std::size_t left) {
    const layout::Extent& a = view.entries[left];
    const layout::Extent& b = view.entries[left + 1];
    return a.block == b.block && a.first + view.CountOf(left) == b.first;
  };
  if ((first > 0 && joins(first - 1)) || (last + 1 < view.entries.size() && joins(last)))
    return false;

  KVD_TRY(layout::ListRoot root, AllocateList(static_cast<std::uint32_t>(view.entries.size())));
  layout::Extent* entries = meta_.list(root.first_unit);
  std::copy(view.entries.begin(), view.entries.end(), entries);
  for (std::size_t e = first; e <= last; ++e) entries[e].delta += delta;
  root.crc = Crc32c(0, std::as_bytes(meta_.entries(root)));
  layout::SequenceRecord record = old;
  record.extents[0] = root;
  if (last + 1 == view.entries.size()) record.next_pos += delta;
  SetPristine(&record, std::min(old.pristine_cells, shifted.begin));
  record.logits_slot = layout::kNoSlot;
  ++record.edit_number;
  if (Status status = CommitRecord(found.index, record); !status) {
    FreeList(root);
    return std::unexpected(std::move(status).error());
  }
  ++content_numbers_[found.index];
  FreeList(old.extents[0]);
  SettleFreed();
  return true;
}

}  // namespace kvd
