// Extents: pure functions over one sequence's list of cells. The functions allocate no blocks,
// count no references and commit nothing.
//
// A list has two forms. The stored form is layout::Extent: an entry contains its start ordinal and
// ends where the next entry starts; the last entry ends at the sequence's cell count. Appending
// cells to the tail of a block therefore changes no entry. The form for editing is `BlockRange`,
// which contains the number of its cells.
//
// Invariant of both forms (normal form): no range is empty, each range lies within one block, and
// no two neighbours could be merged into one range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shm/segment_layout.h"

namespace kvd {

struct BlockRange {
  std::uint32_t block = 0;
  std::uint16_t first = 0;  // first cell, within the block
  std::uint16_t count = 0;  // 1..kBlockCells - first
  std::int32_t delta = 0;
  friend bool operator==(const BlockRange&, const BlockRange&) = default;
};

// A view of a sequence's stored list; the view does not own the entries. The list of a window group
// starts at the ordinal of the first cell that the group still holds.
struct ExtentView {
  std::span<const layout::Extent> entries;
  std::uint32_t cell_count = 0;

  std::uint32_t first_cell() const { return entries.empty() ? cell_count : entries[0].start; }
  std::uint32_t EndOf(std::size_t index) const {
    return index + 1 < entries.size() ? entries[index + 1].start : cell_count;
  }
  std::uint32_t CountOf(std::size_t index) const { return EndOf(index) - entries[index].start; }
  BlockRange RangeAt(std::size_t index) const {
    const layout::Extent& extent = entries[index];
    return {extent.block, extent.first, static_cast<std::uint16_t>(CountOf(index)), extent.delta};
  }
};

// The index of the entry that contains the cell `ordinal`. REQUIRES: view.first_cell() <= ordinal <
// view.cell_count.
std::size_t FindExtent(ExtentView view, std::uint32_t ordinal);

// Appends a range. A range that continues the last range in the same block with the same delta is
// merged into the last range. An empty range is ignored.
void AppendPiece(std::vector<BlockRange>* ranges, BlockRange range);
// Appends the cells [begin, end) of the view. REQUIRES: begin == end, or view.first_cell() <= begin
// <= end <= view.cell_count.
void AppendCells(std::vector<BlockRange>* ranges, ExtentView view, std::uint32_t begin,
                 std::uint32_t end);
std::uint32_t CountCells(std::span<const BlockRange> ranges);
// Stores ranges as entries; first_cell is the ordinal of the first cell. REQUIRES: `entries` has
// room for ranges.size() entries.
void StoreExtents(std::span<const BlockRange> ranges, std::uint32_t first_cell,
                  layout::Extent* entries);
// Appends the ranges of the entries from index `first` to the end.
void AppendEntries(std::vector<BlockRange>* ranges, ExtentView view, std::size_t first);

// A list together with the cell records, which hold the stored positions.
struct CellList {
  ExtentView view;
  const layout::CellRecord* cells = nullptr;  // records of block 0; [block][kBlockCells]

  const layout::CellRecord& RecordAt(std::uint32_t ordinal) const;
  // The effective position of the cell. The result has 64 bits, so that the sum of stored position
  // and delta cannot overflow.
  std::int64_t PositionAt(std::uint32_t ordinal) const;
  // The first ordinal whose effective position is at least `position`; cell_count: there is none.
  std::uint32_t LowerBound(std::int64_t position) const;
};

}  // namespace kvd
