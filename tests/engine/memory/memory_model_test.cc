// Runs seeded random operations on a Memory with full attention and on a naive reference. The
// memory and the reference are compared after each operation.
//
// KVD_TEST_SEED replays a run; KVD_TEST_SCALE multiplies the number of operations (100,000). The
// run consists of episodes, each with a new memory of random size. Most memories are so small that
// space runs out often.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>

#include "tests/engine/memory/attention_episode.h"
#include "tests/engine/memory/model_run.h"
#include "tests/support/test_scale.h"

namespace kvd::memory_model {

TEST(MemoryModelTest, RandomOperationsAgreeWithTheReference) {
  const std::uint64_t seed = SeedOfRun();
  const auto operations = static_cast<std::uint64_t>(100000 * test::TestScale());
  std::printf("KVD_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Tally tally;
  for (std::uint64_t number = 0; tally.operations < operations; ++number) {
    AttentionEpisode episode(seed + number, &tally);
    const std::uint64_t end = tally.operations + 1500;
    while (tally.operations < end) {
      episode.Operate();
      ASSERT_FALSE(HasFailure()) << "KVD_TEST_SEED=" << seed << " episode " << number
                                 << ", operation " << tally.operations;
    }
  }
  std::printf(
      "%llu operations: %llu done, %llu refused, %llu without space, %llu conflicts, %llu on more "
      "than "
      "three blocks, %llu commits stopped at every moment\n",
      static_cast<unsigned long long>(tally.operations),
      static_cast<unsigned long long>(tally.succeeded),
      static_cast<unsigned long long>(tally.refused),
      static_cast<unsigned long long>(tally.no_space),
      static_cast<unsigned long long>(tally.conflicts),
      static_cast<unsigned long long>(tally.long_operations),
      static_cast<unsigned long long>(tally.probed_commits));
  for (const auto& [verb, counts] : tally.by_verb) {
    std::printf("  %-10s %8llu done %8llu refused %8llu without space\n", verb.c_str(),
                static_cast<unsigned long long>(counts[0]),
                static_cast<unsigned long long>(counts[1]),
                static_cast<unsigned long long>(counts[2]));
  }
  if (operations >= 10000) {
    EXPECT_GT(tally.long_operations * 10, tally.operations * 3);
    EXPECT_GT(tally.no_space * 50, tally.operations);
    EXPECT_GT(tally.conflicts * 500, tally.operations);
  }
}

}  // namespace kvd::memory_model
