#include "engine/memory/extents.h"

#include <algorithm>

#include "base/check.h"

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

void AppendPiece(std::vector<BlockRange>* ranges, BlockRange range) {
  if (range.count == 0) return;
  if (!ranges->empty()) {
    BlockRange& last = ranges->back();
    if (last.block == range.block && last.delta == range.delta &&
        last.first + last.count == range.first) {
      last.count = static_cast<std::uint16_t>(last.count + range.count);
      return;
    }
  }
  ranges->push_back(range);
}

void AppendCells(std::vector<BlockRange>* ranges, ExtentView view, std::uint32_t begin,
                 std::uint32_t end) {
  if (begin == end) return;
  KVD_ASSERT(begin < end && end <= view.cell_count);
  for (std::size_t index = FindExtent(view, begin);
       index < view.entries.size() && view.entries[index].start < end; ++index) {
    const layout::Extent& extent = view.entries[index];
    const std::uint32_t from = std::max(begin, extent.start);
    const std::uint32_t to = std::min(end, view.EndOf(index));
    AppendPiece(ranges,
                {extent.block, static_cast<std::uint16_t>(extent.first + (from - extent.start)),
                 static_cast<std::uint16_t>(to - from), extent.delta});
  }
}

std::uint32_t CountCells(std::span<const BlockRange> ranges) {
  std::uint32_t cell_count = 0;
  for (const BlockRange& range : ranges) cell_count += range.count;
  return cell_count;
}

void StoreExtents(std::span<const BlockRange> ranges, std::uint32_t first_cell,
                  layout::Extent* entries) {
  std::uint32_t start = first_cell;
  for (const BlockRange& range : ranges) {
    *entries++ = {range.block, start, range.first, 0, range.delta};
    start += range.count;
  }
}

void AppendEntries(std::vector<BlockRange>* ranges, ExtentView view, std::size_t first) {
  for (std::size_t index = first; index < view.entries.size(); ++index) {
    ranges->push_back(view.RangeAt(index));
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
  // A binary search over the positions of the extents' first cells finds the last extent that
  // begins below `position`; a second binary search finds the cell among the cells of this extent.
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
