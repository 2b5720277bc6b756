// Tests BudgetedSource: portions, forced tokens, and the limits of both.
#include "http/answer/piece_source.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "tests/http/answer/scripted_source.h"

namespace kvd::test {
namespace {

using http::BudgetedSource;
using http::GenerationPortion;
using http::ReasoningLimit;

http::Await<Result<std::string>> TextOfTokens(std::vector<TokenId> tokens) {
  co_return LetterPiece(std::move(tokens)).text;
}

class BudgetedSourceTest : public ::testing::Test {
 protected:
  void Begin(const std::optional<ReasoningLimit>& limit, const GenerationPortion& portion) {
    source_ = std::make_unique<BudgetedSource>(inner_, limit, [](std::span<const TokenId> tokens) {
      return TextOfTokens({tokens.begin(), tokens.end()});
    });
    ASSERT_TRUE(source_->Begin(portion));
  }
  // Reasoning from the first token on, at most `tokens`; the tag that closes it is 9, and 7 and 9
  // are forced.
  static ReasoningLimit LimitOf(std::uint32_t tokens) {
    return {.token_count = tokens,
            .open = {},
            .close = {9},
            .forced = {7, 9},
            .open_text = {},
            .close_text = "i",
            .starts_in_reasoning = true};
  }

  ScriptedSource inner_;
  std::unique_ptr<BudgetedSource> source_;
};

TEST_F(BudgetedSourceTest, WithoutALimitItIsOneGeneration) {
  inner_.Put({.pieces = {LetterPiece({1, 2})}});
  Begin(std::nullopt, {.tokens = {}, .tokens_max = 8, .may_skip_last = true});
  EXPECT_EQ(TakeAllPieces(*source_).text, "ab");
  ASSERT_EQ(inner_.portions().size(), 1u);
  EXPECT_EQ(inner_.portions()[0].tokens_max, 8);
  EXPECT_TRUE(inner_.portions()[0].may_skip_last);
}

TEST_F(BudgetedSourceTest, ForcedTokensFollowTheBudgetAndTheAnswerContinuesBehindThem) {
  const std::vector<TokenId> prompt = {50, 51, 52};
  inner_.Put({.pieces = {LetterPiece({1}), LetterPiece({2})}});
  inner_.Put({.pieces = {LetterPiece({3})}, .finish = wire::kFinishEnd});
  Begin(LimitOf(2), {.tokens = prompt, .first = 4, .tokens_max = 20, .may_skip_last = true});
  const SourceEnd end = TakeAllPieces(*source_);
  EXPECT_EQ(end.text, "abgic");
  EXPECT_EQ(end.tokens, (std::vector<TokenId>{1, 2, 7, 9, 3}));
  ASSERT_EQ(inner_.portions().size(), 2u);
  EXPECT_EQ(inner_.portions()[0].tokens_max, 2);
  EXPECT_FALSE(inner_.portions()[0].may_skip_last) << "the portion is continued";
  EXPECT_EQ(inner_.appended()[1], (std::vector<TokenId>{7, 9}));
  EXPECT_EQ(inner_.portions()[1].first, 7u);
  EXPECT_EQ(inner_.portions()[1].tokens_max, 16);
  EXPECT_EQ(inner_.portions()[1].flags, wire::kResumeSampler);
  EXPECT_TRUE(inner_.portions()[1].may_skip_last);
}

TEST_F(BudgetedSourceTest, ForcedTokensCountAgainstTheLimitOfTheGeneration) {
  inner_.Put({.pieces = {LetterPiece({1, 2})}});
  inner_.Put({});
  Begin(LimitOf(2), {.tokens = {}, .tokens_max = 3});
  EXPECT_EQ(TakeAllPieces(*source_).tokens, (std::vector<TokenId>{1, 2, 7}));
  EXPECT_EQ(inner_.portions()[1].tokens_max, 0);
}

TEST_F(BudgetedSourceTest, AnAnswerThatEndsInItsBudgetIsNotContinued) {
  inner_.Put({.pieces = {LetterPiece({1})}, .finish = wire::kFinishEnd});
  Begin(LimitOf(4), {.tokens = {}, .tokens_max = 20});
  EXPECT_EQ(TakeAllPieces(*source_).text, "a");
  EXPECT_EQ(inner_.portions().size(), 1u);
}

TEST_F(BudgetedSourceTest, APortionThatPredictsNothingEndsTheAnswer) {
  inner_.Put({});
  Begin(LimitOf(4), {.tokens = {}, .tokens_max = 20});
  EXPECT_EQ(TakeAllPieces(*source_).text, "");
  EXPECT_EQ(inner_.portions().size(), 1u);
}

TEST_F(BudgetedSourceTest, ReasoningThatClosesInItsBudgetLeavesTheRestOfTheLimit) {
  inner_.Put({.pieces = {LetterPiece({1}), LetterPiece({9}), LetterPiece({3})}});
  Begin(LimitOf(3), {.tokens = {}, .tokens_max = 20});
  EXPECT_EQ(TakeAllPieces(*source_).text, "aic");
  EXPECT_EQ(inner_.portions().size(), 1u);
}

TEST_F(BudgetedSourceTest, WhatCannotBePreparedIsAnErrorAndBeginsNothing) {
  inner_.Put({.pieces = {LetterPiece({1, 2})}});
  inner_.Put({.pieces = {}, .prepare_error = Error{Code::kSessionLost, "gone"}});
  Begin(LimitOf(2), {.tokens = {}, .tokens_max = 20});
  const SourceEnd end = TakeAllPieces(*source_);
  EXPECT_EQ(end.text, "ab");
  EXPECT_EQ(end.error, "gone");
  EXPECT_EQ(inner_.portions().size(), 1u);
}

}  // namespace
}  // namespace kvd::test
