#include "engine/vocabulary/merge_rules.h"

#include <gtest/gtest.h>

namespace kvd {
namespace {

TEST(PairTableTest, FindsTheFirstValueOfEachPair) {
  PairTable<MergeRule> table(100);
  for (std::int32_t i = 0; i < 100; ++i) table.Add(i, -i, {i, 2 * i});
  table.Add(5, -5, {77, 77});
  for (std::int32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(table.Find(i, -i).rank, i);
    EXPECT_EQ(table.Find(i, -i).merged, 2 * i);
    EXPECT_EQ(table.Find(i, i + 1).rank, -1);
  }
  EXPECT_EQ(table.Find(-1, -1).rank, -1);
}

}  // namespace
}  // namespace kvd
