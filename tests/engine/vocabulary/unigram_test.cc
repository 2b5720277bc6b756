#include "engine/vocabulary/unigram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/engine/vocabulary/charsmap_bytes.h"
#include "tests/engine/vocabulary/vocabulary_case.h"
#include "tests/support/test_scale.h"

namespace kvd::unigram_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Token ids of UnigramData.
constexpr TokenId kPad = 0, kEos = 1, kUnk = 2, kSpace = 3, kA = 4, kB = 5, kAb = 6, kSpaceAb = 7,
                  kAbab = 8, kUser = 9, kByte = 10, kUnused = 11;

VocabularyData UnigramData() {
  VocabularyData data;
  data.model = "t5";
  data.tokens = {"<pad>", "</s>",     "<unk>", "\u2581", "a",      "b",
                 "ab",    "\u2581ab", "abab",  "<user>", "<0x0A>", "unused"};
  data.scores = {0, 0, 0, -2, -3, -3, -4, -4.5, -9, 0, 0, -1};
  data.token_types = {3, 3, 2, 1, 1, 1, 1, 1, 1, 4, 6, 5};
  data.add_space_prefix = true;
  data.remove_extra_whitespaces = true;
  return data;
}

TEST(UnigramTest, TheSplitWithTheBestSumOfScoresIsChosen) {
  VocabularyData data = UnigramData();
  EXPECT_THAT(TokensOf(data, "ab"), ElementsAre(kSpaceAb));
  // the sum is -8.5; "_", "abab" has -11
  EXPECT_THAT(TokensOf(data, "abab"), ElementsAre(kSpaceAb, kAb));
  data.scores[kAbab] = -6;
  EXPECT_THAT(TokensOf(data, "abab"), ElementsAre(kSpace, kAbab));
  EXPECT_THAT(TokensOf(data, "ba"), ElementsAre(kSpace, kB, kA));
  EXPECT_THAT(TokensOf(data, ""), ElementsAre());
}

TEST(UnigramTest, OfEqualSumsTheFirstIsChosen) {
  VocabularyData data = UnigramData();
  data.scores[kAb] = -6;
  data.add_space_prefix = data.remove_extra_whitespaces = false;
  EXPECT_THAT(TokensOf(data, "ab"), ElementsAre(kAb));
}

TEST(UnigramTest, TextWithoutTokensIsOneUnknownToken) {
  EXPECT_THAT(TokensOf(UnigramData(), "xyz"), ElementsAre(kSpace, kUnk));
  EXPECT_THAT(TokensOf(UnigramData(), "a\u20ac\xff b"), ElementsAre(kSpace, kA, kUnk, kSpace, kB));
  VocabularyData data = UnigramData();
  data.unk = 0xffffffff;
  data.tokens.resize(2);
  data.scores.resize(2);
  data.token_types.resize(2);
  // the vocabulary has neither an unknown token nor normal tokens
  EXPECT_THAT(TokensOf(data, "xyz"), ElementsAre());
}

TEST(UnigramTest, UnusedTokensAreMatchedAndControlAndByteTokensAreNot) {
  EXPECT_THAT(TokensOf(UnigramData(), "<pad>\n"), ElementsAre(kSpace, kUnk, kA, kUnk));
  EXPECT_THAT(TokensOf(UnigramData(), "<pad>ab", {.parse_special = true}),
              ElementsAre(kPad, kSpaceAb));
  EXPECT_THAT(TokensOf(UnigramData(), "<0x0A>"), ElementsAre(kSpace, kUnk));
  EXPECT_THAT(TokensOf(UnigramData(), "unused"), ElementsAre(kSpace, kUnused));
  EXPECT_THAT(TokensOf(UnigramData(), "a<user>b"), ElementsAre(kSpace, kA, kUser, kSpace, kB));
}

TEST(UnigramTest, SpacesAreMergedAndPrefixedAsTheFileSays) {
  VocabularyData data = UnigramData();
  EXPECT_THAT(TokensOf(data, "  a   b  "), ElementsAre(kSpace, kA, kSpace, kB));
  data.add_space_prefix.reset();
  EXPECT_THAT(TokensOf(data, "a  b"), ElementsAre(kSpace, kA, kSpace, kB));
  data.remove_extra_whitespaces.reset();
  EXPECT_THAT(TokensOf(data, "a  b "), ElementsAre(kA, kSpace, kSpace, kB, kSpace));
  data.add_space_prefix = true;
  EXPECT_THAT(TokensOf(data, " a b"), ElementsAre(kSpace, kSpace, kA, kSpace, kB));
}

TEST(UnigramTest, EosFollowsATextAndTheTextIsRestored) {
  auto vocabulary = MakeVocabulary(UnigramData());
  EXPECT_EQ(vocabulary->kind(), Vocabulary::Kind::kUnigram);
  std::vector<TokenId> tokens = TokensOf(UnigramData(), "ab a", {.add_special = true});
  EXPECT_THAT(tokens, ElementsAre(kSpaceAb, kSpace, kA, kEos));
  EXPECT_EQ(vocabulary->Detokenize(tokens, {}), "ab a");
  EXPECT_EQ(vocabulary->Detokenize(tokens, {.remove_special = true, .unparse_special = true}),
            "ab a");
  EXPECT_EQ(vocabulary->Detokenize(std::vector{kByte, kUser}, {}), "\n<user>");
  VocabularyData data = UnigramData();
  data.add_eos = false;
  EXPECT_THAT(TokensOf(data, "ab", {.add_special = true}), ElementsAre(kSpaceAb));
}

TEST(UnigramTest, TheRulesOfTheCharsmapAreAppliedLongestFirst) {
  VocabularyData data = UnigramData();
  data.precompiled_charsmap = CharsmapBytes({{"A", "a"}, {"AB", "ba"}, {"\u00a0", " "}, {"q", ""}});
  EXPECT_THAT(TokensOf(data, "A"), ElementsAre(kSpace, kA));
  EXPECT_THAT(TokensOf(data, "AB"), ElementsAre(kSpace, kB, kA));
  EXPECT_THAT(TokensOf(data, "AqB"), ElementsAre(kSpace, kA, kUnk));
  EXPECT_THAT(TokensOf(data, "a\u00a0b"), ElementsAre(kSpace, kA, kSpace, kB));
  EXPECT_THAT(TokensOf(data, "qq"), ElementsAre());
}

TEST(UnigramTest, AUserDefinedTokenInNormalisedTextHasScoreZero) {
  VocabularyData data = UnigramData();
  data.add_space_prefix = data.remove_extra_whitespaces = false;
  data.tokens[kUser] = "ba";
  data.scores[kUser] = -50;
  // "ba" is cut out of a text that has it; "BA" becomes "ba" only by normalisation.
  data.precompiled_charsmap = CharsmapBytes({{"A", "a"}, {"B", "b"}});
  EXPECT_THAT(TokensOf(data, "BA"), ElementsAre(kUser));
  data.token_types[kUser] = static_cast<std::int32_t>(GgufTokenType::kNormal);
  EXPECT_THAT(TokensOf(data, "BA"), ElementsAre(kB, kA));
}

TEST(UnigramTest, TheStartOfAUserDefinedTokenIsNotNormalised) {
  VocabularyData data = UnigramData();
  data.add_space_prefix = data.remove_extra_whitespaces = false;
  data.tokens[kUser] = "AB\u00e9";
  data.precompiled_charsmap = CharsmapBytes({{"A", "a"}, {"B", "b"}, {"\u00e8", "ab"}});
  EXPECT_THAT(TokensOf(data, "Bb"), ElementsAre(kB, kB));
  EXPECT_THAT(TokensOf(data, "Ab"), ElementsAre(kUnk, kB)) << "A begins the token";
  EXPECT_THAT(TokensOf(data, "ABb"), ElementsAre(kUnk, kB));
  EXPECT_THAT(TokensOf(data, "AB\u00e9"), ElementsAre(kUser));
  EXPECT_THAT(TokensOf(data, "a\u00e8"), ElementsAre(kA, kAb))
      << "a character whose first byte alone begins the rest of the token is normalised";
  data.tokens[kUser] = "\u00e9";
  EXPECT_THAT(TokensOf(data, "\u00e8"), ElementsAre(kAb));
}

TEST(UnigramTest, TextThatGrowsBeyondTheLimitIsRefused) {
  VocabularyData data = UnigramData();
  data.precompiled_charsmap = CharsmapBytes({{"A", std::string(1000, 'a')}});
  auto vocabulary = MakeVocabulary(data);
  Result<std::vector<TokenId>> tokens = vocabulary->Tokenize(std::string(40'000, 'A'), {});
  ASSERT_FALSE(tokens.has_value());
  EXPECT_EQ(tokens.error().code, Code::kInvalidArgument);
  EXPECT_THAT(tokens.error().message, HasSubstr("normalised"));
}

TEST(UnigramTest, InfiniteScoresCauseNoError) {
  VocabularyData data = UnigramData();
  data.scores[kA] = -std::numeric_limits<float>::infinity();
  data.scores[kB] = std::numeric_limits<float>::infinity();
  auto vocabulary = MakeVocabulary(data);
  EXPECT_TRUE(vocabulary->Tokenize("a b ab xa", {}).has_value());
}

TEST(UnigramTest, MegabytesOfOneCharacterAreTokenized) {
  auto vocabulary = MakeVocabulary(UnigramData());
  for (char letter : {'a', ' ', '\0', '\xff'})
    EXPECT_TRUE(
        vocabulary->Tokenize(std::string(test::IsScaledDown() ? 500'000 : 2'000'000, letter), {})
            .has_value());
}

}  // namespace
}  // namespace kvd::unigram_test
