// Tests TokenRun: which tokens of a run are computed next, and which of the committed ones the
// grammar forced.
#include "daemon/requests/token_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace kvd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(TokenRunTest, ADrawnTokenAndTheForcedOnesAreComputedInOrder) {
  TokenRun run;
  EXPECT_EQ(run.left(), 0u);
  run.Begin(7);
  EXPECT_TRUE(run.has_drawn_left());
  run.AddForced(8);
  run.AddForced(9);
  EXPECT_EQ(run.left(), 3u);
  EXPECT_EQ(run.forced_left(), 2u);
  EXPECT_THAT(run.Next(2), ElementsAre(7, 8));
  EXPECT_EQ(run.ForcedIn(2), 1u);
  EXPECT_THAT(run.Commit(1), IsEmpty()) << "the client has seen the drawn token";
  EXPECT_FALSE(run.has_drawn_left());
  EXPECT_THAT(run.Next(9), ElementsAre(8, 9));
  EXPECT_EQ(run.ForcedIn(2), 2u);
  EXPECT_THAT(run.Commit(2), ElementsAre(8, 9));
  EXPECT_EQ(run.left(), 0u);
  EXPECT_EQ(run.forced_left(), 0u);
}

TEST(TokenRunTest, AForcedTokenAfterACommittedRunBeginsOneWithoutADrawnToken) {
  TokenRun run;
  run.Begin(7);
  (void)run.Commit(1);
  run.AddForced(8);
  EXPECT_FALSE(run.has_drawn_left());
  EXPECT_THAT(run.Next(9), ElementsAre(8));
  EXPECT_THAT(run.Commit(1), ElementsAre(8));
}

TEST(TokenRunTest, DroppingTheForcedTokensKeepsADrawnOne) {
  TokenRun run;
  run.DropForced();
  EXPECT_EQ(run.left(), 0u);
  run.Begin(7);
  run.AddForced(8);
  run.DropForced();
  EXPECT_THAT(run.Next(9), ElementsAre(7));
  (void)run.Commit(1);
  run.DropForced();
  EXPECT_EQ(run.left(), 0u);
  run.AddForced(8);
  run.AddForced(9);
  (void)run.Commit(1);
  run.DropForced();
  EXPECT_EQ(run.left(), 0u);
}

TEST(TokenRunTest, EveryForcedTokenIsReturnedByOneCommit) {
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    TokenRun run;
    const bool has_drawn = random() % 2 == 0;
    if (has_drawn) run.Begin(100);
    std::vector<TokenId> forced;
    for (auto i = random() % 6 + 1; i > 0; --i) {
      forced.push_back(static_cast<TokenId>(i));
      run.AddForced(forced.back());
    }
    std::vector<TokenId> returned;
    while (run.left() > 0) {
      const std::size_t count = run.Next(1 + random() % 3).size();
      const std::size_t expected = run.ForcedIn(count);
      const auto part = run.Commit(count);
      EXPECT_EQ(part.size(), expected);
      returned.insert(returned.end(), part.begin(), part.end());
      EXPECT_EQ(run.forced_left(), forced.size() - returned.size());
    }
    EXPECT_EQ(returned, forced);
  }
}

}  // namespace
}  // namespace kvd
