// Tests ReasoningBudget: a tag of two tokens (1, 2), which 8, 9 close.
#include "http/answer/piece_source.h"

#include <gtest/gtest.h>

namespace kvd::http {
namespace {

ReasoningLimit LimitOf(std::uint32_t token_count, bool starts_in_reasoning) {
  return {.token_count = token_count,
          .open = {1, 2},
          .close = {8, 9},
          .forced = {7, 8, 9},
          .open_text = "<think>",
          .close_text = "</think>",
          .starts_in_reasoning = starts_in_reasoning};
}

void TakeAll(ReasoningBudget& budget, std::vector<TokenId> tokens, std::string_view text = "x") {
  budget.Take(tokens, text);
}

TEST(ReasoningBudgetTest, WithoutALimitThereIsNoBudget) {
  EXPECT_TRUE(ReasoningBudget().is_over());
}

TEST(ReasoningBudgetTest, ReasoningBegunInThePromptEndsAfterTheBudget) {
  ReasoningBudget budget(LimitOf(3, true));
  EXPECT_EQ(budget.room(), 3u);
  TakeAll(budget, {4, 5});
  EXPECT_EQ(budget.room(), 1u);
  TakeAll(budget, {6});
  EXPECT_TRUE(budget.EndPortion());
  EXPECT_TRUE(budget.is_over());
  EXPECT_EQ(budget.forced(), (std::vector<TokenId>{7, 8, 9}));
}

TEST(ReasoningBudgetTest, ReasoningThatEndsWithinTheBudgetIsNotCut) {
  ReasoningBudget budget(LimitOf(4, true));
  TakeAll(budget, {4, 8, 8});
  EXPECT_FALSE(budget.is_over());
  TakeAll(budget, {9});
  EXPECT_TRUE(budget.is_over());
}

TEST(ReasoningBudgetTest, TheCountBeginsAfterTheTag) {
  ReasoningBudget budget(LimitOf(3, false));
  EXPECT_EQ(budget.room(), 5u);
  TakeAll(budget, {4, 1, 2, 5}, "");
  EXPECT_EQ(budget.room(), 2u);
  EXPECT_FALSE(budget.EndPortion());
  TakeAll(budget, {5, 5});
  EXPECT_TRUE(budget.EndPortion());
}

TEST(ReasoningBudgetTest, ATagAcrossTwoPortionsIsFound) {
  ReasoningBudget budget(LimitOf(0, false));
  TakeAll(budget, {4, 1}, "\n");
  EXPECT_FALSE(budget.EndPortion());
  EXPECT_EQ(budget.room(), 1u);
  TakeAll(budget, {2}, "");
  EXPECT_EQ(budget.room(), 0u);
  EXPECT_TRUE(budget.EndPortion());
}

TEST(ReasoningBudgetTest, TagsThatAreNotSpecialTokensAreFoundAsText) {
  ReasoningBudget budget(LimitOf(3, false));
  TakeAll(budget, {4, 4, 4}, "\n<th");
  TakeAll(budget, {4, 4}, "in");
  EXPECT_EQ(budget.room(), 0u);
  EXPECT_FALSE(budget.EndPortion());
  EXPECT_EQ(budget.room(), 4u);
  TakeAll(budget, {4}, "k>");
  EXPECT_EQ(budget.room(), 3u);
  TakeAll(budget, {4}, "so </thi");
  EXPECT_FALSE(budget.is_over());
  TakeAll(budget, {4}, "nk>");
  EXPECT_TRUE(budget.is_over());
}

TEST(ReasoningBudgetTest, AnAnswerWithoutReasoningIsNotDivided) {
  ReasoningBudget budget(LimitOf(1, false));
  TakeAll(budget, {4, 5, 6}, " The drum");
  EXPECT_FALSE(budget.EndPortion());
  EXPECT_TRUE(budget.is_over());
}

}  // namespace
}  // namespace kvd::http
