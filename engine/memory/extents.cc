#include "engine/memory/extents.h"

#include <algorithm>

#include "shm/check.h"

namespace kvd {
namespace {

const layout::CellRecord& CellAt(const layout::CellRecord* cells, const layout::Extent& extent,
                                 std::uint32_t index) {
  return cells[std::size_t{extent.block} * layout::kBlockCells + extent.first + index];
}

}  // namespace

std::size_t FindExtent(ExtentView view, std::uint32_t ordinal) {
  KVD_ASSERT(ordinal >= view.first_cell() && ordinal < view.cell_count);
  const auto after = std::upper_bound(
      view.entries.begin(), view.entries.end(), ordinal,
      [](std::uint32_t cell, const layout::Extent& extent) { return cell < extent.start; });
  return static_cast<std::size_t>(after - view.entries.begin()) - 1;
}

void AppendPiece(std::vector<Piece>* pieces, Piece piece) {
  if (piece.count == 0) return;
  if (!pieces->empty()) {
    Piece& last = pieces->back();
    if (last.block == piece.block && last.delta == piece.delta &&
        last.first + last.count == piece.first) {
      last.count = static_cast<std::uint16_t>(last.count + piece.count);
      return;
    }
  }
  pieces->push_back(piece);
}

void AppendCells(std::vector<Piece>* pieces, ExtentView view, std::uint32_t begin,
                 std::uint32_t end) {
  if (begin == end) return;
  KVD_ASSERT(begin < end && end <= view.cell_count);
  for (std::size_t index = FindExtent(view, begin);
       index < view.entries.size() && view.entries[index].start < end; ++index) {
    const layout::Extent& extent = view.entries[index];
    const std::uint32_t from = std::max(begin, extent.start);
    const std::uint32_t to = std::min(end, view.EndOf(index));
    AppendPiece(pieces,
                {extent.block, static_cast<std::uint16_t>(extent.first + (from - extent.start)),
                 static_cast<std::uint16_t>(to - from), extent.delta});
  }
}

std::uint32_t CountCells(std::span<const Piece> pieces) {
  std::uint32_t cell_count = 0;
  for (const Piece& piece : pieces) cell_count += piece.count;
  return cell_count;
}

void StoreExtents(std::span<const Piece> pieces, std::uint32_t first_cell,
                  layout::Extent* entries) {
  std::uint32_t start = first_cell;
  for (const Piece& piece : pieces) {
    *entries++ = {piece.block, start, piece.first, 0, piece.delta};
    start += piece.count;
  }
}

void AppendEntries(std::vector<Piece>* pieces, ExtentView view, std::size_t first) {
  for (std::size_t index = first; index < view.entries.size(); ++index) {
    pieces->push_back(view.PieceAt(index));
  }
}

const layout::CellRecord& CellList::RecordAt(std::uint32_t ordinal) const {
  const layout::Extent& extent = view.entries[FindExtent(view, ordinal)];
  return CellAt(cells, extent, ordinal - extent.start);
}

std::int64_t CellList::PositionAt(std::uint32_t ordinal) const {
  const layout::Extent& extent = view.entries[FindExtent(view, ordinal)];
  return std::int64_t{CellAt(cells, extent, ordinal - extent.start).stored_pos} + extent.delta;
}

std::uint32_t CellList::LowerBound(std::int64_t position) const {
  // First among the extents, by their first cells; then among the cells of the one before.
  const auto first_position = [this](const layout::Extent& extent) {
    return std::int64_t{CellAt(cells, extent, 0).stored_pos} + extent.delta;
  };
  const auto after = std::lower_bound(view.entries.begin(), view.entries.end(), position,
                                      [&](const layout::Extent& extent, std::int64_t wanted) {
                                        return first_position(extent) < wanted;
                                      });
  if (after == view.entries.begin()) return 0;
  const auto index = static_cast<std::size_t>(after - view.entries.begin()) - 1;
  const layout::Extent& extent = view.entries[index];
  const layout::CellRecord* const begin = &CellAt(cells, extent, 0);
  const auto cell =
      std::lower_bound(begin, begin + view.CountOf(index), position,
                       [&](const layout::CellRecord& record, std::int64_t wanted) {
                         return std::int64_t{record.stored_pos} + extent.delta < wanted;
                       });
  return extent.start + static_cast<std::uint32_t>(cell - begin);
}

}  // namespace kvd
