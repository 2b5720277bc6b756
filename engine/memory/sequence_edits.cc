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

Result<std::uint32_t> UnifiedMemory::RemoveRange(SequenceHandle handle, PosRange range) {
  std::uint32_t removed = 0;
  {
    const std::scoped_lock lock(mutex_);
    KVD_TRY(const Found found, FindMutable(handle));
    KVD_TRY(const CellRange cells, FindCells(*found.record, range));
    if (cells.begin == cells.end) return removed;
    removed = cells.end - cells.begin;
    if (cells.end == found.record->cell_count) {
      KVD_CHECK_OK(CutTail(found.index, cells.begin));
    } else {
      const ExtentView view = ViewOf(*found.record);
      old_pieces_.clear();
      new_pieces_.clear();
      AppendCells(&old_pieces_, view, 0, view.cell_count);
      AppendCells(&new_pieces_, view, 0, cells.begin);
      AppendCells(&new_pieces_, view, cells.end, view.cell_count);
      KVD_CHECK_OK(ReplaceList(
          found.index, {.pristine_cells = std::min(found.record->pristine_cells, cells.begin),
                        .unchanged_cells = cells.begin}));
    }
  }
  ReturnUnusedSlabs();
  return removed;
}

Status UnifiedMemory::Clear(SequenceHandle handle) {
  KVD_CHECK_OK(RemoveRange(handle, PosRange{}));
  return {};
}

Status UnifiedMemory::CutTail(std::uint32_t index, std::uint32_t cell_count) {
  const layout::SequenceRecord old = meta_.sequences()[index];
  const CellList cells = CellsOf(old);
  layout::SequenceRecord record = old;
  record.cell_count = cell_count;
  record.next_pos = 0;
  std::uint32_t recounted_from = 0;  // the first cell of the extent that is cut
  if (cell_count == 0) {
    record.extents[0] = kEmptyList;
  } else {
    // The first entries of the list are the new list: entries behind entry_count are not committed.
    layout::ListRoot& root = record.extents[0];
    root.entry_count = static_cast<std::uint32_t>(FindExtent(cells.view, cell_count - 1)) + 1;
    if (root.entry_count != old.extents[0].entry_count) {
      root.crc = Crc32c(0, std::as_bytes(meta_.entries(root)));
    }
    record.next_pos = static_cast<std::int32_t>(cells.PositionAt(cell_count - 1)) + 1;
    recounted_from = cells.view.entries[root.entry_count - 1].start;
  }
  SetPristine(&record, old.pristine_cells);
  KVD_CHECK_OK(PlanState(old, cell_count, cell_count, &record));
  ++record.edit_number;
  old_pieces_.clear();
  new_pieces_.clear();
  AppendCells(&old_pieces_, cells.view, recounted_from, old.cell_count);
  AppendCells(&new_pieces_, cells.view, recounted_from, cell_count);

  log_.Begin();
  PutRecord(index, record);
  KVD_CHECK_OK(log_.Commit());
  ++content_numbers_[index];
  RecountPieces(holders_[index]);
  if (cell_count == 0) FreeList(old.extents[0]);
  RecountState(old, record, holders_[index]);
  return {};
}

Result<std::uint32_t> UnifiedMemory::CopyRange(SequenceHandle source, SequenceHandle destination,
                                               PosRange range) {
  const std::scoped_lock lock(mutex_);
  if (source == destination) {
    return Fail(Code::kInvalidArgument,
                HandleText(source) + ": source and destination are the same");
  }
  KVD_TRY(const Found from, Find(source));
  KVD_TRY(const Found to, FindMutable(destination));
  KVD_TRY(const CellRange copied, FindCells(*from.record, range));
  const std::uint32_t copied_count = copied.end - copied.begin;
  if (copied_count == 0) return copied_count;

  const CellList source_cells = CellsOf(*from.record);
  const CellList cells = CellsOf(*to.record);
  if (has_state() && (copied.begin != 0 || cells.view.cell_count != 0)) {
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
  if (copied_count > kCellsMax - cells.view.cell_count) {
    return Fail(Code::kNoSpace, "cells of one sequence: more than " + std::to_string(kCellsMax));
  }

  old_pieces_.clear();
  new_pieces_.clear();
  AppendCells(&old_pieces_, cells.view, 0, cells.view.cell_count);
  AppendCells(&new_pieces_, cells.view, 0, at);
  AppendCells(&new_pieces_, source_cells.view, copied.begin, copied.end);
  AppendCells(&new_pieces_, cells.view, at, cells.view.cell_count);
  // Into an empty sequence the source's first cells stay what they are: the pristine part of a
  // prefix is a pristine prefix.
  const bool is_prefix = cells.view.cell_count == 0 && copied.begin == 0;
  const std::uint32_t pristine = is_prefix ? std::min(from.record->pristine_cells, copied_count)
                                           : std::min(to.record->pristine_cells, at);
  KVD_CHECK_OK(ReplaceList(to.index, {.pristine_cells = pristine,
                                      .unchanged_cells = has_state() ? copied.end : at,
                                      .state_source = has_state() ? from.record : nullptr}));
  return copied_count;
}

Status UnifiedMemory::AddPositions(SequenceHandle handle, PosRange range, std::int32_t delta) {
  const std::scoped_lock lock(mutex_);
  KVD_TRY(const Found found, FindMutable(handle));
  KVD_TRY(const CellRange shifted, FindCells(*found.record, range));
  if (shifted.begin == shifted.end || delta == 0) return {};

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
  old_pieces_.clear();
  new_pieces_.clear();
  moved_pieces_.clear();
  AppendCells(&old_pieces_, cells.view, 0, cells.view.cell_count);
  AppendCells(&new_pieces_, cells.view, 0, shifted.begin);
  AppendCells(&moved_pieces_, cells.view, shifted.begin, shifted.end);
  for (Piece piece : moved_pieces_) {
    piece.delta += delta;
    AppendPiece(&new_pieces_, piece);
  }
  AppendCells(&new_pieces_, cells.view, shifted.end, cells.view.cell_count);
  return ReplaceList(found.index,
                     {.pristine_cells = std::min(found.record->pristine_cells, shifted.begin),
                      .unchanged_cells = found.record->cell_count});
}

Result<bool> UnifiedMemory::ShiftWholeExtents(const Found& found, CellRange shifted,
                                              std::int32_t delta) {
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
  log_.Begin();
  PutRecord(found.index, record);
  if (Status status = log_.Commit(); !status) {
    FreeList(root);
    return std::unexpected(std::move(status).error());
  }
  ++content_numbers_[found.index];
  FreeList(old.extents[0]);
  RecountState(old, record, holders_[found.index]);
  return true;
}

}  // namespace kvd
