#include "engine/memory/extents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvd {
namespace {

using testing::ElementsAre;

// Cells 0..31 in block 4, 32..41 in block 2 (from cell 3 on), 42..46 in block 4 again.
const std::vector<layout::Extent> kEntries = {
    {4, 0, 0, 0, 0}, {2, 32, 3, 0, -8}, {4, 42, 10, 0, 7}};
const ExtentView kView{kEntries, 47};

TEST(ExtentsTest, AnEntryEndsWhereTheNextOneStarts) {
  EXPECT_EQ(kView.PieceAt(0), (Piece{4, 0, 32, 0}));
  EXPECT_EQ(kView.PieceAt(1), (Piece{2, 3, 10, -8}));
  EXPECT_EQ(kView.PieceAt(2), (Piece{4, 10, 5, 7}));
  EXPECT_EQ(FindExtent(kView, 0), 0u);
  EXPECT_EQ(FindExtent(kView, 31), 0u);
  EXPECT_EQ(FindExtent(kView, 32), 1u);
  EXPECT_EQ(FindExtent(kView, 46), 2u);
}

TEST(ExtentsTest, CellsAreCutOutOfTheMiddleOfExtents) {
  std::vector<Piece> pieces;
  AppendCells(&pieces, kView, 30, 44);
  EXPECT_THAT(pieces, ElementsAre(Piece{4, 30, 2, 0}, Piece{2, 3, 10, -8}, Piece{4, 10, 2, 7}));
  EXPECT_EQ(CountCells(pieces), 14u);
  AppendCells(&pieces, kView, 5, 5);
  EXPECT_EQ(pieces.size(), 3u);
  AppendCells(&pieces, kView, 44, 47);  // goes on where the last piece ends
  EXPECT_EQ(pieces.back(), (Piece{4, 10, 5, 7}));
}

TEST(ExtentsTest, PiecesMergeOnlyWithinABlockSideBySideAtOneDelta) {
  std::vector<Piece> pieces;
  AppendPiece(&pieces, {1, 0, 4, 0});
  AppendPiece(&pieces, {1, 4, 0, 0});
  AppendPiece(&pieces, {1, 5, 1, 0});
  AppendPiece(&pieces, {1, 6, 1, 1});
  AppendPiece(&pieces, {2, 7, 1, 1});
  AppendPiece(&pieces, {2, 8, 1, 1});
  EXPECT_THAT(pieces, ElementsAre(Piece{1, 0, 4, 0}, Piece{1, 5, 1, 0}, Piece{1, 6, 1, 1},
                                  Piece{2, 7, 2, 1}));
  std::vector<layout::Extent> stored(4);
  StoreExtents(pieces, 0, stored.data());
  EXPECT_EQ(stored[3], (layout::Extent{2, 6, 7, 0, 1}));
}

TEST(ExtentsTest, LowerBoundFindsPositionsAcrossHolesDeltasAndEqualOnes) {
  std::vector<layout::CellRecord> cells(5 * layout::kBlockCells);
  for (std::uint32_t k = 0; k < 32; ++k)
    cells[4 * 32 + k].stored_pos = static_cast<std::int32_t>(k / 2);
  for (std::uint32_t k = 0; k < 10; ++k)
    cells[2 * 32 + 3 + k].stored_pos = static_cast<std::int32_t>(28 + k);
  // Effective: 0 0 1 1 … 15 15 | 20 … 29 | block 4, cells 10..14 are 5 5 6 6 7 at delta 40: 45 45
  // 46 46 47
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
