// Tests ResumedDraws: which tokens of an earlier attempt are committed and received, and how many
// cells are computed again.
#include "daemon/requests/generation_start.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace kvd {
namespace {

TEST(ResumedDrawsTest, TokensComeInOrderWithWhatTheClientHasReceived) {
  ResumedDraws draws({.drawn = {4, 5, 6}, .streamed = 2, .take_back = 1});
  for (const TokenId token : {4, 5, 6}) {
    ASSERT_TRUE(draws.has_next());
    const ResumedDraws::Draw draw = draws.Next();
    EXPECT_EQ(draw.token, token);
    EXPECT_EQ(draw.is_received, token != 6);
    EXPECT_FALSE(draw.is_open);
  }
  EXPECT_FALSE(draws.has_next());
  EXPECT_FALSE(draws.is_last_open());
  EXPECT_EQ(draws.last_committed(), std::optional<TokenId>(6));
  EXPECT_EQ(draws.take_back(), 1u);
}

TEST(ResumedDrawsTest, OnlyTheLastTokenIsOpen) {
  ResumedDraws draws({.drawn = {4, 5}, .is_last_drawn = true, .streamed = 2});
  EXPECT_FALSE(draws.Next().is_open);
  const ResumedDraws::Draw last = draws.Next();
  EXPECT_TRUE(last.is_open);
  EXPECT_TRUE(last.is_received);
  EXPECT_TRUE(draws.is_last_open());
  EXPECT_EQ(draws.last(), 5);
  EXPECT_EQ(draws.last_committed(), std::optional<TokenId>(4));
}

TEST(ResumedDrawsTest, WithoutACommittedTokenThePromptIsTheLastThing) {
  const ResumedDraws none({.prompt_done = 3, .drawn = {}, .take_back = 1});
  EXPECT_FALSE(none.has_next());
  EXPECT_EQ(none.last_committed(), std::nullopt);
  const ResumedDraws open({.drawn = {4}, .is_last_drawn = true, .streamed = 1});
  EXPECT_EQ(open.last_committed(), std::nullopt);
}

}  // namespace
}  // namespace kvd
