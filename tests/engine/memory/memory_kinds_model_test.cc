// Runs seeded random operations on memories of every kind: full attention, window, recurrent,
// latent rows, hybrids of these, and encoder. The memory is compared with the naive reference after
// each operation. In a run, some steps and replays fail because cells, slots or list units are
// missing, some are abandoned, and some are interrupted by verbs.
//
// KVD_TEST_SEED replays a run; KVD_TEST_SCALE multiplies the number of operations (60,000).
// memory_model_test tests full attention with more operations.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>

#include "tests/engine/memory/kind_episode.h"
#include "tests/engine/memory/model_run.h"
#include "tests/support/test_scale.h"

namespace kvd::memory_model {

TEST(MemoryKindsModelTest, RandomOperationsAgreeWithTheReferenceForEveryKind) {
  const std::uint64_t seed = SeedOfRun();
  const auto operations = static_cast<std::uint64_t>(60000 * test::TestScale());
  std::printf("KVD_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  KindTally tally;
  for (std::uint64_t number = 0; tally.operations < operations; ++number) {
    KindEpisode episode(seed + number, static_cast<Kind>(number % kKindCount), &tally);
    const std::uint64_t end = tally.operations + 400;
    while (tally.operations < end) {
      episode.Operate();
      ASSERT_FALSE(HasFailure()) << "KVD_TEST_SEED=" << seed << " episode " << number;
    }
  }
  for (const auto& [name, count] : tally.codes) {
    std::printf("  %-32s %8llu\n", name.c_str(), static_cast<unsigned long long>(count));
  }
  if (operations < 10000) return;
  // The test checks that each listed pair of verb and result has occurred in the run.
  for (const char* name :
       {"remove window_lost", "remove needs_replay", "fork needs_replay", "fork window_lost",
        "commit conflict", "commit rewind ok", "commit rewind conflict", "reserve no_space",
        "begin encode exists", "commit encode ok", "copy unsupported", "keep logits ok",
        "begin rewind no_space"}) {
    EXPECT_GT(tally.codes[name], 0u) << name;
  }
}

}  // namespace kvd::memory_model
