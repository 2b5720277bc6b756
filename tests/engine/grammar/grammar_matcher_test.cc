#include "engine/grammar/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/engine/grammar/grammar_texts.h"

namespace kvd {
namespace {

using test::Compile;
using test::EndToken;
using test::IsPrefix;
using test::MaskTexts;
using test::Matches;
using test::ThinkToken;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kJson = R"(root ::= ws value ws
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (member (ws "," ws member)*)? ws "}"
member ::= string ws ":" ws value
array ::= "[" ws (value (ws "," ws value)*)? ws "]"
string ::= "\"" ([^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
ws ::= [ \t\n]*)";

TEST(GrammarMatcherTest, JsonIsMatchedToItsEnd) {
  const auto grammar = Compile(kJson);
  for (const char* text :
       {"{}", "[]", " [1, -2.5e+3, \"a\\u00e9\\n\", {\"k\": [null, true]}] ", "\"\u4f60\"", "0"})
    EXPECT_TRUE(Matches(grammar, text)) << text;
  for (const char* text : {"{]", "01", "\"\n\"", "[1,]", "nul1", "{\"a\" 1", "\"\\u12G"})
    EXPECT_FALSE(IsPrefix(grammar, text)) << text;
  for (const char* text : {"", "{", "[1", "\"a", "tru", "{\"a\":"}) {
    EXPECT_TRUE(IsPrefix(grammar, text)) << text;
    EXPECT_FALSE(Matches(grammar, text)) << text;
  }
}

TEST(GrammarMatcherTest, ATokenOutsideTheLanguageIsRefusedAndChangesNothing) {
  const auto grammar = Compile("root ::= \"abc\" \"d\"*", {"ab", "abd", "cd", "cx"});
  GrammarMatcher matcher(grammar);
  const auto refused = matcher.Accept(257);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_EQ(refused.error().message, "token 257 at byte 2: the grammar does not allow it");
  EXPECT_EQ(matcher.byte_count(), 0u);
  EXPECT_THAT(MaskTexts(matcher), ElementsAre("a", "ab"));
  ASSERT_TRUE(matcher.Accept(256).has_value());
  EXPECT_THAT(MaskTexts(matcher), ElementsAre("c", "cd"));
  EXPECT_EQ(matcher.Accept(259).error().message,
            "token 259 at byte 3: the grammar does not allow it");
  EXPECT_EQ(matcher.AcceptText("cde").error().message,
            "the byte 101 at byte 4: the grammar does not allow it");
  ASSERT_TRUE(matcher.Accept(258).has_value());
  EXPECT_TRUE(matcher.may_end());
  EXPECT_EQ(matcher.byte_count(), 4u);
  for (const TokenId token : {-1, 263, 1'000'000})
    EXPECT_THAT(matcher.Accept(token).error().message, HasSubstr("the vocabulary has 263"));
}

TEST(GrammarMatcherTest, AnEndTokenIsAcceptedOnlyWhereTheTextMayEnd) {
  const auto grammar = Compile("root ::= \"a\" \"b\"?");
  GrammarMatcher matcher(grammar);
  const TokenId end = EndToken(grammar->vocabulary());
  EXPECT_FALSE(matcher.Accept(end).has_value());
  ASSERT_TRUE(matcher.AcceptText("a").has_value());
  EXPECT_THAT(MaskTexts(matcher), ElementsAre("END", "b"));
  EXPECT_TRUE(matcher.Accept(end).has_value());
  EXPECT_TRUE(matcher.may_end());
  ASSERT_TRUE(matcher.AcceptText("b").has_value());
  EXPECT_THAT(MaskTexts(matcher), ElementsAre("END"));
  EXPECT_FALSE(matcher.is_dead());
}

TEST(GrammarMatcherTest, ACharacterMayBeSplitOverTokens) {
  // U+4F60 is E4 BD A0, U+4E00 is E4 B8 80.
  const auto grammar =
      Compile("root ::= [\u4f60\u4e00] \"!\"", {"\xe4\xbd", "\xa0!", "\xe4\xb8\x81"});
  GrammarMatcher matcher(grammar);
  EXPECT_THAT(MaskTexts(matcher), ElementsAre("\xe4", "\xe4\xbd"));
}

TEST(GrammarMatcherTest, TokenTerminalsMatchTokensAndNoText) {
  const auto grammar = Compile("root ::= <think> [^<]* </think> \"a\" !<think> <eos>?", {"ab"});
  const GrammarVocabulary& vocabulary = grammar->vocabulary();
  const TokenId think = ThinkToken(vocabulary);
  GrammarMatcher matcher(grammar);
  EXPECT_EQ(test::TokensOf(*matcher.Mask()), std::vector<TokenId>{think});
  EXPECT_FALSE(matcher.AcceptText("<think>").has_value());
  ASSERT_TRUE(matcher.Accept(think).has_value());
  ASSERT_TRUE(matcher.AcceptText("xy").has_value());
  EXPECT_FALSE(matcher.Accept(think).has_value());
  EXPECT_TRUE(matcher.Mask()->Contains(think + 1));
  EXPECT_FALSE(matcher.Mask()->Contains(think));
  ASSERT_TRUE(matcher.Accept(think + 1).has_value());
  EXPECT_THAT(MaskTexts(matcher), ElementsAre("a"));
  ASSERT_TRUE(matcher.Accept('a').has_value());
  // A negated terminal matches every named token except the one, and no end token.
  const auto mask = matcher.Mask();
  EXPECT_EQ(mask->size(), vocabulary.vocab_size() - 2);
  EXPECT_FALSE(mask->Contains(think));
  EXPECT_FALSE(mask->Contains(EndToken(vocabulary)));
  EXPECT_FALSE(matcher.Accept(think).has_value());
  EXPECT_FALSE(matcher.Accept(EndToken(vocabulary)).has_value());
  ASSERT_TRUE(matcher.Accept(256).has_value());
  // The terminal <eos> consumes the end token.
  EXPECT_TRUE(matcher.may_end());
  ASSERT_TRUE(matcher.Accept(EndToken(vocabulary)).has_value());
  EXPECT_TRUE(matcher.may_end());
  EXPECT_THAT(MaskTexts(matcher), ElementsAre("END"));
}

TEST(GrammarMatcherTest, ATokenMayMatchAsTextAndAsTerminal) {
  const auto grammar = Compile("root ::= \"ab\" \"c\" | <[256]> \"d\"", {"ab"});
  GrammarMatcher matcher(grammar);
  ASSERT_TRUE(matcher.Accept(256).has_value());
  EXPECT_THAT(MaskTexts(matcher), ElementsAre("c", "d"));
}

TEST(GrammarMatcherTest, ForcedTextEndsAtAChoice) {
  const auto grammar = Compile(
      R"(root ::= "{\"name\": \"" ("get_weather" | "get_time") "\"" [}] "\u00e9" [\u00ea] ("x"{2} | "xxy")?)");
  GrammarMatcher matcher(grammar);
  EXPECT_EQ(matcher.ForcedText(100), "{\"name\": \"get_");
  EXPECT_EQ(matcher.ForcedText(4), "{\"na");
  EXPECT_EQ(matcher.ForcedText(0), "");
  ASSERT_TRUE(matcher.AcceptText("{\"name\": \"get_t").has_value());
  EXPECT_EQ(matcher.ForcedText(100), "ime\"}\u00e9\u00ea");
  ASSERT_TRUE(matcher.AcceptText("ime\"}\u00e9\u00eax").has_value());
  EXPECT_EQ(matcher.ForcedText(100), "x");
  GrammarMatcher terminal(Compile("root ::= <think> | \"a\""));
  EXPECT_EQ(terminal.ForcedText(100), "");
}

TEST(GrammarMatcherTest, CopiesAreIndependent) {
  const auto grammar = Compile("root ::= \"a\"* \"b\"");
  GrammarMatcher first(grammar);
  ASSERT_TRUE(first.AcceptText("aa").has_value());
  GrammarMatcher second(first);
  ASSERT_TRUE(second.AcceptText("b").has_value());
  EXPECT_FALSE(first.may_end());
  EXPECT_TRUE(second.may_end());
  first = second;
  EXPECT_TRUE(first.may_end());
  EXPECT_EQ(first.byte_count(), 3u);
  GrammarMatcher third(std::move(first));
  EXPECT_TRUE(third.may_end());
  first = GrammarMatcher(grammar);
  EXPECT_FALSE(first.may_end());
}

TEST(GrammarMatcherTest, AMaskIsComputedOnceForAState) {
  const auto grammar = Compile("root ::= \"(\" [a-z]* \")\"");
  GrammarMatcher matcher(grammar);
  EXPECT_FALSE(matcher.has_cached_mask());
  ASSERT_TRUE(matcher.AcceptText("(a").has_value());
  const auto mask = matcher.Mask();
  ASSERT_TRUE(matcher.AcceptText("bcd").has_value());
  EXPECT_TRUE(matcher.has_cached_mask());
  EXPECT_EQ(matcher.Mask(), mask);
}

TEST(GrammarMatcherTest, MasksCanBeComputedOnOtherThreads) {
  const auto grammar = Compile(kJson, {"\", \"", "\": ", "abc", "[["});
  GrammarMatcher matcher(grammar);
  for (const char c : std::string_view("{\"a\": [\"b\", 1.5, [true]]}")) {
    GrammarMatcher copy(matcher);
    std::shared_ptr<const TokenMask> mask;
    std::thread maker([&] { mask = copy.Mask(); });
    ASSERT_TRUE(matcher.AcceptText({&c, 1}).has_value());
    maker.join();
    EXPECT_TRUE(mask->Contains(static_cast<unsigned char>(c)));
  }
  EXPECT_TRUE(matcher.may_end());
}

TEST(GrammarMatcherTest, TheHashDependsOnTheTextOnly) {
  const auto a = Compile("root ::= \"a\"");
  EXPECT_EQ(a->hash(), Compile("root ::= \"a\"", {"xyz"})->hash());
  EXPECT_NE(a->hash(), Compile("root ::= \"a\" ")->hash());
  // The value is part of saved states.
  EXPECT_EQ(a->hash(), 12940040875286604728u);
}

}  // namespace
}  // namespace kvd
