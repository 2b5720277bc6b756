#include "engine/memory/item_sets.h"

#include <gtest/gtest.h>

namespace kvd {
namespace {

TEST(FreeSetTest, GivesTheLowestFreeNumber) {
  FreeSet set(130);
  for (std::uint32_t number = 0; number < 130; ++number) EXPECT_EQ(set.TakeLowest(), number);
  EXPECT_EQ(set.TakeLowest(), std::nullopt);
  set.Give(129);
  set.Give(3);
  set.Give(70);
  EXPECT_EQ(set.free_count(), 3u);
  set.Take(3);
  EXPECT_EQ(set.TakeLowest(), 70u);
  EXPECT_EQ(set.TakeLowest(), 129u);
  EXPECT_EQ(set.TakeLowest(), std::nullopt);
}

TEST(FreeSetTest, EqualityIsThatOfTheNumbers) {
  FreeSet a(64);
  const FreeSet b(64);
  a.Take(5);
  EXPECT_FALSE(a == b);
  a.Give(5);
  EXPECT_TRUE(a == b);
  EXPECT_EQ(FreeSet(0).free_count(), 0u);
}

}  // namespace
}  // namespace kvd
