#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/grammar/grammar.h"
#include "tests/engine/grammar/grammar_texts.h"
#include "tests/support/counting_work.h"

namespace kvd {
namespace {

using test::Compile;
using test::MaskTexts;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(GrammarLimitsTest, TheDepthOfOpenRulesIsLimited) {
  const auto grammar = Compile("root ::= \"(\" root \")\" | \"x\"", {}, {.depth = 3});
  GrammarMatcher matcher(grammar);
  ASSERT_TRUE(matcher.AcceptText("(((").has_value());
  EXPECT_THAT(MaskTexts(matcher), ElementsAre("x")) << "a deeper state is not offered";
  EXPECT_FALSE(matcher.Mask()->is_complete());
  const auto refused = matcher.AcceptText("((");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kTooLarge);
  EXPECT_THAT(refused.error().message, HasSubstr("grammar: depth: more than 3 open rules"));
  EXPECT_EQ(matcher.AcceptText("((").error().message, refused.error().message);
  ASSERT_TRUE(matcher.AcceptText("x)))").has_value());
  EXPECT_TRUE(matcher.may_end());
}

TEST(GrammarLimitsTest, RightRecursionNeedsNoDepth) {
  const auto grammar = Compile("root ::= \"a\" rest\nrest ::= [a-z] rest | \"\"", {}, {.depth = 4});
  GrammarMatcher matcher(grammar);
  ASSERT_TRUE(matcher.AcceptText(std::string(100'000, 'q')).has_value() == false);
  ASSERT_TRUE(matcher.AcceptText("a" + std::string(100'000, 'q')).has_value());
  EXPECT_TRUE(matcher.may_end());
}

TEST(GrammarLimitsTest, CommonAmbiguitiesNeedSmallStates) {
  // Every split of the text between the two rules is open.
  const auto grammar = Compile("root ::= s\ns ::= \"a\" s \"b\" | \"a\" s \"c\" | \"\"");
  GrammarMatcher matcher(grammar);
  ASSERT_TRUE(matcher.AcceptText(std::string(500, 'a')).has_value());
  std::string ends;
  for (int i = 0; i < 500; ++i) ends += i % 3 == 0 ? 'b' : 'c';
  ASSERT_TRUE(matcher.AcceptText(ends).has_value());
  EXPECT_TRUE(matcher.may_end());
  EXPECT_LT(grammar->held_bytes(), 2u << 20);
}

TEST(GrammarLimitsTest, AStateThatNeedsTooManyEntriesIsRefused) {
  std::string gbnf = "root ::= \"x\" many\nmany ::= \"a0\"";
  for (int i = 1; i < 200; ++i) gbnf += " | \"a" + std::to_string(i) + "\"";
  EXPECT_THAT(test::CompileError("root ::= many" + gbnf.substr(gbnf.find('\n')), Code::kTooLarge,
                                 {.state_entries = 100}),
              HasSubstr("grammar: state_entries: the first state needs more than 100"));
  const auto grammar = Compile(gbnf, {}, {.state_entries = 100});
  GrammarMatcher matcher(grammar);
  EXPECT_TRUE(matcher.Mask()->empty());
  EXPECT_FALSE(matcher.Mask()->is_complete());
  EXPECT_TRUE(matcher.is_dead());
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto refused = matcher.AcceptText("x");
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Code::kTooLarge);
    EXPECT_THAT(refused.error().message, HasSubstr("grammar: state_entries"));
  }
}

TEST(GrammarLimitsTest, AMaskThatNeedsTooMuchWorkAllowsFewerTokens) {
  const auto grammar = Compile("root ::= [a-z]{0,100} \"!\"", {"abc", "zzz"}, {.mask_entries = 4});
  GrammarMatcher matcher(grammar);
  const auto mask = matcher.Mask();
  EXPECT_FALSE(mask->is_complete());
  for (const TokenId token : test::TokensOf(*mask)) {
    GrammarMatcher copy(matcher);
    EXPECT_TRUE(copy.Accept(token).has_value()) << token;
  }
}

TEST(GrammarLimitsTest, MatchersStayValidWhenStatesAreDropped) {
  const std::string_view gbnf = "root ::= \"(\" root \")\" | [a-z]{0,500} | \"[\" root \"]\"";
  const auto small = Compile(gbnf, {}, {.cache_bytes = 1});
  const auto large = Compile(gbnf);
  std::vector<GrammarMatcher> few;
  std::vector<GrammarMatcher> all;
  std::vector<std::string> texts;
  for (int i = 0; i < 40; ++i) {
    std::string text;
    for (int k = 0; k < i; ++k) text += k * i % 3 == 0 ? '[' : '(';
    texts.push_back(text + std::string(static_cast<std::size_t>(i * 11), 'q'));
    few.emplace_back(small);
    all.emplace_back(large);
    ASSERT_TRUE(few.back().AcceptText(texts.back()).has_value());
    ASSERT_TRUE(all.back().AcceptText(texts.back()).has_value());
    for (std::size_t m = 0; m < few.size(); m += 7)
      EXPECT_EQ(MaskTexts(few[m]), MaskTexts(all[m])) << texts[m];
  }
  EXPECT_GT(small->drop_count(), 1u);
  EXPECT_EQ(large->drop_count(), 0u);
  for (std::size_t m = 0; m < few.size(); ++m) {
    std::string end;
    for (std::size_t k = 0; k < m; ++k) end.insert(0, k * m % 3 == 0 ? "]" : ")");
    ASSERT_TRUE(few[m].AcceptText(end).has_value()) << texts[m];
    EXPECT_TRUE(few[m].may_end());
  }
}

TEST(GrammarLimitsTest, CompilingCanBeCancelled) {
  std::string gbnf = "root ::= \"x\"";
  for (int i = 0; i < 20'000; ++i)
    gbnf += "\nr" + std::to_string(i) + " ::= [a-z" + std::to_string(i % 10) + "] \"abc\"";
  const auto vocabulary = test::GrammarVocabularyOf({});
  test::CountingWork counted;
  ASSERT_TRUE(Grammar::Compile(gbnf, vocabulary, {}, counted).has_value());
  EXPECT_GT(counted.steps(), 10u);
  for (std::uint64_t at = 1; at <= counted.steps(); at += 3) {
    test::CountingWork cancelled(at);
    const auto result = Grammar::Compile(gbnf, vocabulary, {}, cancelled);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, Code::kCancelled);
  }
}

}  // namespace
}  // namespace kvd
