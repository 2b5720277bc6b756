// Division is the one edit that needs other K bytes: the cells are re-rotated into fresh blocks, and the sequence's list then
// refers to those. It is a step of its own: reserve, compute without the lock, commit.
#include <algorithm>
#include <string>

#include "engine/memory/record_functions.h"
#include "engine/memory/unified_memory.h"
#include "shm/check.h"

namespace kvd {

// One division between its two locked parts.
struct UnifiedMemory::Division {
  std::uint32_t index = 0;  // of the sequence
  std::uint64_t content_number = 0;
  CellRange cells;
  std::vector<Piece> sources;       // the divided cells as they are
  std::vector<Piece> destinations;  // fresh blocks, delta 0
};

Result<UnifiedMemory::Division> UnifiedMemory::PlanDivision(SequenceHandle handle, PosRange range,
                                                            std::int32_t divisor) const {
  Division division;
  KVD_TRY(const Found found, FindMutable(handle));
  KVD_TRY(division.cells, FindCells(*found.record, range));
  if (divisor <= 0) {
    return Fail(Code::kInvalidArgument,
                "divisor: " + std::to_string(divisor) + ", must be above 0");
  }
  division.index = found.index;
  division.content_number = content_numbers_[found.index];
  const CellList cells = CellsOf(*found.record);
  const auto [begin, end] = division.cells;
  if (begin == end || divisor == 1) {
    division.cells.end = begin;
    return division;
  }
  // Positions only fall, so nothing behind the range is in the way.
  const std::int64_t first = cells.PositionAt(begin) / divisor;
  if (begin > 0 && cells.PositionAt(begin - 1) > first) {
    return Fail(Code::kInvalidArgument,
                "divisor: " + std::to_string(divisor) + " moves the first position to " +
                    std::to_string(first) + ", before " +
                    std::to_string(cells.PositionAt(begin - 1)) + " outside of the range");
  }
  const std::uint32_t blocks = (end - begin + layout::kBlockCells - 1) / layout::kBlockCells;
  if (blocks > allocator_.free_blocks()) {
    return Fail(Code::kNoSpace, NoBlocks(blocks, allocator_.free_blocks()));
  }
  AppendCells(&division.sources, cells.view, begin, end);
  return division;
}

Status UnifiedMemory::RotateCells(const Division& division, std::int32_t divisor,
                                  CellRotator& rotator) {
  const std::uint64_t stride = meta_.geometry().block_stride_bytes[0];
  for (const Piece& piece : division.destinations) {
    KVD_CHECK_OK(segments_.pool.EnsureReserved(piece.block * stride, stride));
  }
  auto destination = division.destinations.begin();
  std::uint32_t written = 0;  // cells of *destination
  for (const Piece& source : division.sources) {
    for (std::uint32_t cell = source.first; cell < source.first + std::uint32_t{source.count};
         ++cell) {
      if (written == destination->count) {
        ++destination;
        written = 0;
      }
      const layout::CellRecord& record = meta_.cells(source.block)[cell];
      const std::int64_t position = std::int64_t{record.stored_pos} + source.delta;
      const auto divided = static_cast<std::int32_t>(position / divisor);
      KVD_CHECK_OK(
          rotator.RotateCell(static_cast<BlockId>(source.block), cell, Pos{record.stored_pos},
                             static_cast<BlockId>(destination->block), written, Pos{divided}));
      WriteCell(destination->block, written, record.token, divided);
      ++written;
    }
  }
  return {};
}

Status UnifiedMemory::CommitDivision(SequenceHandle handle, const Division& division) {
  const Result<Found> found = Find(handle);
  if (!found || content_numbers_[found->index] != division.content_number) {
    return Fail(Code::kConflict, HandleText(handle) + ": changed while its positions were divided");
  }
  const ExtentView view = ViewOf(*found->record);
  old_pieces_.clear();
  new_pieces_.clear();
  AppendCells(&old_pieces_, view, 0, view.cell_count);
  AppendCells(&new_pieces_, view, 0, division.cells.begin);
  for (const Piece& piece : division.destinations) AppendPiece(&new_pieces_, piece);
  AppendCells(&new_pieces_, view, division.cells.end, view.cell_count);
  return ReplaceList(found->index, std::min(found->record->pristine_cells, division.cells.begin));
}

Result<std::uint32_t> UnifiedMemory::DividePositions(SequenceHandle handle, PosRange range,
                                                     std::int32_t divisor, CellRotator& rotator) {
  std::unique_lock growth(growth_mutex_);
  std::unique_lock lock(mutex_);
  KVD_ASSERT(!allocator_.step_is_running());
  KVD_TRY(Division division, PlanDivision(handle, range, divisor));
  const std::uint32_t cell_count = division.cells.end - division.cells.begin;
  if (cell_count == 0) return cell_count;
  allocator_.BeginStep();
  for (std::uint32_t left = cell_count; left > 0;) {
    const std::uint32_t count = std::min(left, layout::kBlockCells);
    division.destinations.push_back(
        {allocator_.ReserveFresh(count), 0, static_cast<std::uint16_t>(count), 0});
    left -= count;
  }
  lock.unlock();

  Status status = RotateCells(division, divisor, rotator);

  lock.lock();
  if (status) status = CommitDivision(handle, division);
  for (const Piece& piece : division.destinations) allocator_.Release(piece.block, tables_.blocks);
  allocator_.EndStep();
  lock.unlock();
  growth.unlock();
  ReturnUnusedSlabs();
  if (!status) return std::unexpected(std::move(status).error());
  return cell_count;
}

}  // namespace kvd
