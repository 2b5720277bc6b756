// Runs seeded random verbs of three owners on a memory of every kind. After each verb, every owner
// is within its quota, and a verb that failed has not changed any committed byte of `meta`.
//
// KVD_TEST_SEED replays a run; KVD_TEST_SCALE multiplies the number of operations (50,000).
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>

#include "tests/engine/memory/model_run.h"
#include "tests/engine/memory/resource_episode.h"
#include "tests/support/test_scale.h"

namespace kvd::memory_model {

namespace {

void RunEpisodes(bool evicts) {
  const std::uint64_t seed = SeedOfRun();
  const auto operations = static_cast<std::uint64_t>(50000 * test::TestScale());
  std::printf("KVD_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  ResourceTally tally;
  for (std::uint64_t number = 0; tally.operations < operations; ++number) {
    ResourceEpisode episode(seed + number, static_cast<Kind>(number % kKindCount), evicts, &tally);
    const std::uint64_t end = tally.operations + 500;
    while (tally.operations < end) {
      episode.Operate();
      ASSERT_FALSE(testing::Test::HasFailure()) << "KVD_TEST_SEED=" << seed << " episode " << number
                                                << ", operation " << tally.operations;
    }
  }
  for (const auto& [name, count] : tally.codes) {
    std::printf("  %-32s %8llu\n", name.c_str(), static_cast<unsigned long long>(count));
  }
  if (operations < 10000) return;
  // The test checks that each listed pair of verb and result has occurred in the run.
  for (const char* name : {"fork ok",
                           "fork no_space",
                           "fork window_lost",
                           "fork needs_replay",
                           "publish ok",
                           "publish exists",
                           "reserve ok",
                           "reserve no_space",
                           "commit ok",
                           "commit conflict",
                           "commit rewind ok",
                           "begin rewrite no_space",
                           "rewrite slice ok",
                           "rewrite slice conflict",
                           "begin restore no_space",
                           "commit restore ok",
                           "take prefix ok",
                           "retain ok",
                           "set owner ok",
                           "remove needs_replay",
                           "keep checkpoint ok",
                           "defragment ok"}) {
    EXPECT_GT(tally.codes[name], 0u) << name;
  }
}

}  // namespace

TEST(ResourceInvariantsTest, RandomOperationsStayWithinSharesAndRefusalsChangeNothing) {
  RunEpisodes(false);
}

}  // namespace kvd::memory_model
