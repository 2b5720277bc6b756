// Extents: pure functions over one sequence's list of cells. Nothing here allocates, counts or
// commits.
//
// A list has two forms. As stored (layout::Extent) an entry says where it starts and ends where the
// next one starts, the last one at the sequence's cell count: appending to a block's tail changes
// no entry. For editing, `Piece` says its count.
//
// Invariant of both (normal form): pieces are not empty, lie within one block, and no two
// neighbours could be one piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shm/segment_layout.h"

namespace kvd {

struct Piece {
  std::uint32_t block = 0;
  std::uint16_t first = 0;  // cell of the block
  std::uint16_t count = 0;  // 1..kBlockCells - first
  std::int32_t delta = 0;
  friend bool operator==(const Piece&, const Piece&) = default;
};

// A sequence's list as it is stored. Does not own the entries. That of a window group starts at the
// ordinal of the first cell that it still holds.
struct ExtentView {
  std::span<const layout::Extent> entries;
  std::uint32_t cell_count = 0;

  std::uint32_t first_cell() const { return entries.empty() ? cell_count : entries[0].start; }
  std::uint32_t EndOf(std::size_t index) const {
    return index + 1 < entries.size() ? entries[index + 1].start : cell_count;
  }
  std::uint32_t CountOf(std::size_t index) const { return EndOf(index) - entries[index].start; }
  Piece PieceAt(std::size_t index) const {
    const layout::Extent& extent = entries[index];
    return {extent.block, extent.first, static_cast<std::uint16_t>(CountOf(index)), extent.delta};
  }
};

// The entry that holds the cell `ordinal`. REQUIRES: view.first_cell() <= ordinal <
// view.cell_count.
std::size_t FindExtent(ExtentView view, std::uint32_t ordinal);

// Appends a piece, as part of the last one where they touch in one block with one delta. Empty
// pieces are dropped.
void AppendPiece(std::vector<Piece>* pieces, Piece piece);
// Appends the cells [begin, end) of the view. REQUIRES: begin == end, or view.first_cell() <= begin
// <= end <= view.cell_count.
void AppendCells(std::vector<Piece>* pieces, ExtentView view, std::uint32_t begin,
                 std::uint32_t end);
std::uint32_t CountCells(std::span<const Piece> pieces);
// Stores pieces as entries, the first cell's ordinal being first_cell. REQUIRES: room for
// pieces.size() entries.
void StoreExtents(std::span<const Piece> pieces, std::uint32_t first_cell, layout::Extent* entries);
// The pieces of the entries from `first` on.
void AppendEntries(std::vector<Piece>* pieces, ExtentView view, std::size_t first);

// A view together with the records of its cells: positions.
struct CellList {
  ExtentView view;
  const layout::CellRecord* cells = nullptr;  // of block 0; [block][kBlockCells]

  const layout::CellRecord& RecordAt(std::uint32_t ordinal) const;
  // Effective position. 64 bits: sums of stored positions and deltas cannot overflow here.
  std::int64_t PositionAt(std::uint32_t ordinal) const;
  // The first ordinal whose effective position is at least `position`; cell_count if there is none.
  std::uint32_t LowerBound(std::int64_t position) const;
};

}  // namespace kvd
