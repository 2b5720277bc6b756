#include "engine/memory/block_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>
#include <vector>

namespace kvd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Holder kHeld{.is_held = true, .owner = OwnerId{7}};

// Returns a holder that is held by one of three owners or reclaimable.
Holder RandomHolder(std::mt19937& random) {
  const std::uint64_t owner = random() % 4;
  return owner == 3 ? kReclaimable : Holder{.is_held = true, .owner = OwnerId{owner}};
}

TEST(BlockTableTest, TheFillDropsWithTheLastReferenceToTheHighestCells) {
  BlockTable table(2);
  std::vector<std::uint32_t> freed;
  table.Add({1, 0, 20, 0}, kHeld);
  table.Add({1, 0, 10, 5}, kHeld);
  EXPECT_EQ(table.fill(1), 20u);
  EXPECT_EQ(table.live_cells(), 20u);
  EXPECT_EQ(table.CountShared({1, 5, 10, 0}), 5u);
  table.Drop({1, 0, 20, 0}, kHeld, &freed);
  EXPECT_EQ(table.fill(1), 10u);
  EXPECT_THAT(freed, IsEmpty());
  table.Drop({1, 0, 10, 5}, kHeld, &freed);
  EXPECT_THAT(freed, ElementsAre(1));
  EXPECT_EQ(table, BlockTable(2));
}

TEST(BlockTableTest, FullAndPartialReferencesAreSummed) {
  BlockTable table(1);
  std::vector<std::uint32_t> freed;
  table.Add({0, 30, 2, 0}, kHeld);
  EXPECT_EQ(table.fill(0), 32u);
  EXPECT_EQ(table.live_mask(0), 0xc0000000u);
  table.Add({0, 0, 32, 0}, kHeld);
  EXPECT_EQ(table.live_cells(), 32u);
  EXPECT_EQ(table.CountShared({0, 0, 32, 0}), 2u);
  table.Drop({0, 30, 2, 0}, kHeld, &freed);
  EXPECT_EQ(table.CountShared({0, 0, 32, 0}), 0u);
  EXPECT_EQ(table.references(0, 31), 1u);
}

TEST(BlockTableTest, ABlockIsReclaimableWhileNoHoldExists) {
  BlockTable table(1);
  std::vector<std::uint32_t> freed;
  table.Add({0, 0, 32, 0}, kReclaimable);
  EXPECT_EQ(table.reclaimable_blocks(), 1u);
  table.Add({0, 4, 2, 0}, kHeld);
  EXPECT_EQ(table.reclaimable_blocks(), 0u);
  table.Drop({0, 4, 2, 0}, kHeld, &freed);
  EXPECT_EQ(table.reclaimable_blocks(), 1u);
  table.Drop({0, 0, 32, 0}, kReclaimable, &freed);
  EXPECT_EQ(table.reclaimable_blocks(), 0u);
}

TEST(BlockTableTest, AnyOrderOfReferencesGivesTheSameTable) {
  constexpr std::uint32_t kBlocks = 6;
  std::mt19937 random(11);
  std::vector<std::pair<BlockRange, Holder>> held;
  BlockTable table(kBlocks);
  std::vector<std::uint32_t> freed;
  for (int step = 0; step < 20000; ++step) {
    if (held.empty() || random() % 2 == 0) {
      const bool is_full = random() % 3 == 0;
      const auto first = static_cast<std::uint16_t>(is_full ? 0 : random() % 32);
      const auto count = static_cast<std::uint16_t>(is_full ? 32 : random() % (32u - first) + 1);
      const BlockRange range{static_cast<std::uint32_t>(random() % kBlocks), first, count, 0};
      held.emplace_back(range, RandomHolder(random));
      table.Add(held.back().first, held.back().second);
    } else {
      std::swap(held[random() % held.size()], held.back());
      table.Drop(held.back().first, held.back().second, &freed);
      held.pop_back();
    }
    if (step % 16 != 0) continue;
    BlockTable rebuilt(kBlocks);
    std::array<std::array<std::uint32_t, 32>, kBlocks> counts = {};
    for (const auto& [range, holder] : held) {
      rebuilt.Add(range, holder);
      for (std::uint32_t k = 0; k < range.count; ++k) ++counts[range.block][range.first + k];
    }
    ASSERT_EQ(rebuilt, table);
    std::uint64_t live = 0;
    for (std::uint32_t block = 0; block < kBlocks; ++block) {
      for (std::uint32_t cell = 0; cell < 32; ++cell) {
        ASSERT_EQ(table.references(block, cell), counts[block][cell]);
        live += counts[block][cell] != 0;
      }
    }
    ASSERT_EQ(table.live_cells(), live);
    for (std::uint64_t owner = 0; owner < 3; ++owner) {
      std::set<std::uint32_t> owned;
      for (const auto& [range, holder] : held) {
        if (holder.is_held && holder.owner == OwnerId{owner}) owned.insert(range.block);
      }
      ASSERT_EQ(table.CountOwned(OwnerId{owner}), owned.size());
    }
  }
}

}  // namespace
}  // namespace kvd
