#include "engine/memory/list_arena.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace kvd {
namespace {

TEST(ListArenaTest, TakesTheSmallestRunThatFitsAndTheLowestOfEquals) {
  ListArena arena(20);
  ASSERT_TRUE(arena.Take(3, 1));
  ASSERT_TRUE(arena.Take(8, 1));
  ASSERT_TRUE(arena.Take(13, 1));  // free: 0..2, 4..7, 9..12, 14..19
  EXPECT_EQ(arena.Allocate(4), 4u);
  EXPECT_EQ(arena.Allocate(4), 9u);
  EXPECT_EQ(arena.Allocate(2), 0u);
  EXPECT_EQ(arena.Allocate(7), std::nullopt);
  EXPECT_EQ(arena.largest_run(), 6u);
  EXPECT_EQ(arena.free_units(), 7u);
}

TEST(ListArenaTest, FreedNeighboursAreOneRunAgain) {
  ListArena arena(10);
  EXPECT_EQ(arena.Allocate(3), 0u);
  EXPECT_EQ(arena.Allocate(3), 3u);
  EXPECT_EQ(arena.Allocate(4), 6u);
  arena.Free(0, 3);
  arena.Free(6, 4);
  EXPECT_EQ(arena.largest_run(), 4u);
  arena.Free(3, 3);
  EXPECT_EQ(arena, ListArena(10));
}

TEST(ListArenaTest, TakeRefusesARunThatIsNotFree) {
  ListArena arena(10);
  EXPECT_TRUE(arena.Take(4, 2));
  EXPECT_FALSE(arena.Take(5, 1));
  EXPECT_FALSE(arena.Take(3, 2));
  EXPECT_FALSE(arena.Take(8, 3));
  EXPECT_FALSE(arena.Take(10, 1));
  EXPECT_FALSE(arena.Take(0, 0));
  EXPECT_FALSE(arena.Take(2, ~0u));
  EXPECT_TRUE(arena.Take(0, 4));
  EXPECT_TRUE(arena.Take(6, 4));
  EXPECT_EQ(arena.free_units(), 0u);
}

TEST(ListArenaTest, RandomOperationsAgreeWithABitmap) {
  std::mt19937 random(7);
  ListArena arena(200);
  std::vector<bool> taken(200);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> runs;
  for (int step = 0; step < 20000; ++step) {
    if (random() % 2 == 0 || runs.empty()) {
      const auto units = static_cast<std::uint32_t>(random() % 12 + 1);
      if (const auto first = arena.Allocate(units)) {
        for (std::uint32_t unit = *first; unit < *first + units; ++unit) {
          ASSERT_FALSE(taken[unit]);
          taken[unit] = true;
        }
        runs.emplace_back(*first, units);
      }
    } else {
      std::swap(runs[random() % runs.size()], runs.back());
      const auto [first, units] = runs.back();
      runs.pop_back();
      arena.Free(first, units);
      for (std::uint32_t unit = first; unit < first + units; ++unit) taken[unit] = false;
    }
    ListArena rebuilt(200);
    for (const auto& [first, units] : runs) ASSERT_TRUE(rebuilt.Take(first, units));
    ASSERT_EQ(rebuilt, arena);
  }
}

}  // namespace
}  // namespace kvd
