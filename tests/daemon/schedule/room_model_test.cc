// Herds of 16 generations over every kind of memory and pools of every size: each ends with its
// whole answer, whatever happens meanwhile, and the tokens computed twice are bounded.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/daemon/support/herd.h"
#include "tests/support/test_scale.h"
#include "tests/support/tiny_model.h"

namespace kvd::room_model_test {
namespace {

using test::Herd;
using test::HerdAnswers;
using test::HerdTally;

struct Kind {
  std::string name;
  Architecture architecture;
};

std::vector<Kind> Kinds() {
  return {{"Attention", Architecture::kLlama},
          {"Window", Architecture::kGemma2},
          {"Recurrent", Architecture::kMamba},
          {"Hybrid", Architecture::kJamba}};
}

class RoomModelTest : public testing::TestWithParam<Kind> {
 protected:
  RoomModelTest() {
    HerdTally alone;
    answers_ =
        Herd({.shape = shape_, .blocks = Herd::BlocksMax(), .state_slots = kSlotsMax, .seed = 1},
             nullptr, &alone)
            .Run();
    EXPECT_EQ(alone.given_back, 0u);
  }
  // Runs a herd in every third size of the pool, from the context and one answer to all answers;
  // the seed chooses which.
  void RunHerds(bool is_disturbed) {
    const auto stride = static_cast<std::uint32_t>(3 * test::Stride(6));
    std::uint64_t seed = test::Seed() * 1000;
    for (std::uint32_t blocks = Herd::BlocksMin() + static_cast<std::uint32_t>(test::Seed() % 3);
         blocks <= Herd::BlocksMax(); blocks += stride) {
      ++seed;
      const auto slots = static_cast<std::uint32_t>(kSlotsMin + seed * 7 % 40);
      SCOPED_TRACE(testing::Message() << blocks << " blocks, " << slots << " slots, seed " << seed);
      Herd({.shape = shape_,
            .blocks = blocks,
            .state_slots = slots,
            .seed = seed,
            .is_disturbed = is_disturbed},
           &answers_, &tally_)
          .Run();
      if (HasFailure()) return;
    }
    EXPECT_GT(tally_.given_back, 0u);
  }

  // The context's state, and those of one generation before and after a step.
  static constexpr std::uint32_t kSlotsMin = 4;
  static constexpr std::uint32_t kSlotsMax = 80;
  const ModelShape shape_ = test::TinyOf(GetParam().architecture);
  HerdAnswers answers_;
  HerdTally tally_;
};

TEST_P(RoomModelTest, EachOfSixteenEndsWithItsWholeAnswerInAPoolOfAnySize) { RunHerds(false); }

TEST_P(RoomModelTest, EachOfSixteenEndsWithItsWholeAnswerWhateverHappensWhileItWaits) {
  RunHerds(true);
  if (test::IsScaledDown()) return;
  // The herds that give cells back are hit by everything.
  EXPECT_GT(tally_.restarts, 0u);
  EXPECT_GT(tally_.reattachments, 0u);
  EXPECT_GT(tally_.lost_connections, 0u);
  EXPECT_GT(tally_.hits_on_given, 0u);
  EXPECT_GT(tally_.cancelled, 0u);
  EXPECT_GT(tally_.forks, 0u);
  EXPECT_GT(tally_.edits, 0u);
  EXPECT_GT(tally_.refused_edits, 0u);
}

INSTANTIATE_TEST_SUITE_P(Kinds, RoomModelTest, testing::ValuesIn(Kinds()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace kvd::room_model_test
