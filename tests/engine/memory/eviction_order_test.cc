// Compares EvictionOrder with a naive implementation that examines all sequences.
#include "engine/memory/prefix_tables.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <tuple>

#include "tests/support/test_scale.h"

namespace kvd {
namespace {

constexpr std::uint32_t kOrderCapacity = 200;

std::optional<std::uint32_t> NaiveLeast(const std::map<std::uint32_t, EvictionOrder::Sequence>& all,
                                        std::uint64_t use_number) {
  std::optional<std::tuple<double, std::uint64_t, std::uint32_t>> least;
  for (const auto& [index, sequence] : all) {
    const std::tuple worth(EvictionOrder::WorthOf(sequence, use_number), sequence.created, index);
    if (!least || worth < *least) least = worth;
  }
  return least ? std::optional(std::get<2>(*least)) : std::nullopt;
}

TEST(EvictionOrderTest, TheNextEvictionEqualsThatOfAFullScan) {
  std::mt19937 random(17);
  EvictionOrder order(kOrderCapacity);
  std::map<std::uint32_t, EvictionOrder::Sequence> naive;
  std::uint64_t uses = 0;
  const auto in = [&](std::uint32_t most) { return static_cast<std::uint32_t>(random() % most); };
  for (int step = 0; step < test::Scaled(20'000); ++step) {
    const std::uint32_t index = in(kOrderCapacity);
    switch (in(8)) {
      case 0:
        order.Erase(index);
        naive.erase(index);
        break;
      case 1: uses += in(50); break;
      default: {
        const std::uint32_t tokens = in(3) == 0 ? in(4) : in(1u << in(20));
        const EvictionOrder::Sequence sequence{
            .last_use = in(4) == 0 ? 0 : ++uses, .created = in(5), .tokens = tokens};
        order.Put(index, sequence);
        naive[index] = sequence;
      }
    }
    ASSERT_EQ(order.size(), naive.size());
    ASSERT_EQ(order.Least(uses), NaiveLeast(naive, uses)) << step;
    if (in(50) == 0) {
      while (const auto least = order.Least(uses)) {
        ASSERT_EQ(least, NaiveLeast(naive, uses));
        order.Erase(*least);
        naive.erase(*least);
      }
    }
  }
  order.Clear();
  EXPECT_EQ(order.Least(uses), std::nullopt);
}

TEST(EvictionOrderTest, LongAndRecentSequencesAreEvictedLater) {
  EvictionOrder order(4);
  order.Put(0, {.last_use = 90, .created = 1, .tokens = 100});
  order.Put(1, {.last_use = 90, .created = 1, .tokens = 1000});
  EXPECT_EQ(order.Least(100), 0u);
  order.Put(0, {.last_use = 100, .created = 1, .tokens = 100});
  EXPECT_EQ(order.Least(100), 1u)
      << "sequence 0 has an eighth of the tokens, but sequence 1 is unused for 11 times as long";
  order.Put(0, {.last_use = 90, .created = 1, .tokens = 100});
  order.Put(1, {.last_use = 0, .created = 1, .tokens = 1000});
  EXPECT_EQ(order.Least(100), 1u);
  order.Put(2, {.last_use = 100, .created = 0, .tokens = 0});
  EXPECT_EQ(order.Least(100), 2u);
  EXPECT_TRUE(order.contains(2));
  EXPECT_FALSE(order.contains(3));
}

}  // namespace
}  // namespace kvd
