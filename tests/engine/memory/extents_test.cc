#include "engine/memory/extents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvd {
namespace {

using testing::ElementsAre;

// Cells 0..31 of the sequence are cells 0..31 of block 4, cells 32..41 are cells 3..12 of block 2,
// and cells 42..46 are cells 10..14 of block 4.
const std::vector<layout::Extent> kEntries = {
    {4, 0, 0, 0, 0}, {2, 32, 3, 0, -8}, {4, 42, 10, 0, 7}};
const ExtentView kView{kEntries, 47};

TEST(ExtentsTest, AnEntryEndsWhereTheNextOneStarts) {
  EXPECT_EQ(kView.RangeAt(0), (BlockRange{4, 0, 32, 0}));
  EXPECT_EQ(kView.RangeAt(1), (BlockRange{2, 3, 10, -8}));
  EXPECT_EQ(kView.RangeAt(2), (BlockRange{4, 10, 5, 7}));
  EXPECT_EQ(FindExtent(kView, 0), 0u);
  EXPECT_EQ(FindExtent(kView, 31), 0u);
  EXPECT_EQ(FindExtent(kView, 32), 1u);
  EXPECT_EQ(FindExtent(kView, 46), 2u);
}

TEST(ExtentsTest, CellsAreCutOutOfTheMiddleOfExtents) {
  std::vector<BlockRange> ranges;
  AppendCells(&ranges, kView, 30, 44);
  EXPECT_THAT(ranges, ElementsAre(BlockRange{4, 30, 2, 0}, BlockRange{2, 3, 10, -8},
                                  BlockRange{4, 10, 2, 7}));
  EXPECT_EQ(CountCells(ranges), 14u);
  AppendCells(&ranges, kView, 5, 5);
  EXPECT_EQ(ranges.size(), 3u);
  AppendCells(&ranges, kView, 44, 47);  // the appended cells extend the last range
  EXPECT_EQ(ranges.back(), (BlockRange{4, 10, 5, 7}));
}

TEST(ExtentsTest, OnlyAdjacentPiecesOfOneBlockAndDeltaMerge) {
  std::vector<BlockRange> ranges;
  AppendPiece(&ranges, {1, 0, 4, 0});
  AppendPiece(&ranges, {1, 4, 0, 0});
  AppendPiece(&ranges, {1, 5, 1, 0});
  AppendPiece(&ranges, {1, 6, 1, 1});
  AppendPiece(&ranges, {2, 7, 1, 1});
  AppendPiece(&ranges, {2, 8, 1, 1});
  EXPECT_THAT(ranges, ElementsAre(BlockRange{1, 0, 4, 0}, BlockRange{1, 5, 1, 0},
                                  BlockRange{1, 6, 1, 1}, BlockRange{2, 7, 2, 1}));
  std::vector<layout::Extent> stored(4);
  StoreExtents(ranges, 0, stored.data());
  EXPECT_EQ(stored[3], (layout::Extent{2, 6, 7, 0, 1}));
}

TEST(ExtentsTest, LowerBoundFindsPositionsAcrossHolesDeltasAndEqualOnes) {
  std::vector<layout::CellRecord> cells(5 * layout::kBlockCells);
  for (std::uint32_t k = 0; k < 32; ++k)
    cells[4 * 32 + k].stored_pos = static_cast<std::int32_t>(k / 2);
  for (std::uint32_t k = 0; k < 10; ++k)
    cells[2 * 32 + 3 + k].stored_pos = static_cast<std::int32_t>(28 + k);
  // Effective positions of the three extents: 0 0 1 1 … 15 15, then 20 … 29, then 45 45 46 46 47
  // (block 4 stores 5 5 6 6 7 in its cells 10..14, and delta is 40).
  const std::vector<layout::Extent> entries = {
      {4, 0, 0, 0, 0}, {2, 32, 3, 0, -8}, {4, 42, 10, 0, 40}};
  const CellList list{{entries, 47}, cells.data()};
  EXPECT_EQ(list.PositionAt(0), 0);
  EXPECT_EQ(list.PositionAt(32), 20);
  EXPECT_EQ(list.PositionAt(46), 47);
  for (std::int64_t position = -1; position < 50; ++position) {
    std::uint32_t expected = 0;
    while (expected < 47 && list.PositionAt(expected) < position) ++expected;
    EXPECT_EQ(list.LowerBound(position), expected) << position;
  }
}

}  // namespace
}  // namespace kvd
