#include "engine/vocabulary/sentencepiece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "engine/vocabulary/escaped_spaces.h"
#include "tests/engine/vocabulary/vocabulary_case.h"
#include "tests/support/test_scale.h"

namespace kvd::sentencepiece_test {
namespace {

using testing::ElementsAre;

// Token ids of SmallSentencePieceData.
constexpr TokenId kByte0 = 3;
constexpr TokenId kSpace = 259, kL = 262, kO = 263, kHell = 266, kHello = 267, kSpaceHello = 268,
                  kUser = 269;

std::vector<TokenId> TokensOf(const Vocabulary& vocabulary, std::string_view text,
                              TokenizeOptions options = {}) {
  Result<std::vector<TokenId>> tokens = vocabulary.Tokenize(text, options);
  EXPECT_TRUE(tokens.has_value()) << tokens.error().message;
  return tokens ? *tokens : std::vector<TokenId>();
}

std::string TextOf(const Vocabulary& vocabulary, std::span<const TokenId> tokens,
                   DetokenizeOptions options = {}) {
  Result<std::string> text = vocabulary.Detokenize(tokens, options);
  EXPECT_TRUE(text.has_value()) << text.error().message;
  return text ? *text : std::string();
}

TEST(SentencePieceTest, ASpaceIsAddedBeforeATextAndRemovedAgain) {
  auto vocabulary = MakeVocabulary(SmallSentencePieceData());
  EXPECT_THAT(TokensOf(*vocabulary, "hello"), ElementsAre(kSpaceHello));
  EXPECT_THAT(TokensOf(*vocabulary, "hello hello"), ElementsAre(kSpaceHello, kSpaceHello));
  EXPECT_THAT(TokensOf(*vocabulary, " hello"), ElementsAre(kSpace, kSpaceHello));
  EXPECT_THAT(TokensOf(*vocabulary, ""), ElementsAre());
  EXPECT_EQ(TextOf(*vocabulary, TokensOf(*vocabulary, "hello")), "hello");
  EXPECT_EQ(TextOf(*vocabulary, TokensOf(*vocabulary, " hello")), " hello");
}

TEST(SentencePieceTest, NoSpaceIsAddedIfTheFileSaysSo) {
  VocabularyData data = SmallSentencePieceData();
  data.add_space_prefix = false;
  auto vocabulary = MakeVocabulary(data);
  EXPECT_THAT(TokensOf(*vocabulary, "hello"), ElementsAre(kHello));
  EXPECT_EQ(TextOf(*vocabulary, TokensOf(*vocabulary, " hello")), " hello");
}

TEST(SentencePieceTest, ASpaceIsAddedAfterEverySpecialToken) {
  auto vocabulary = MakeVocabulary(SmallSentencePieceData());
  EXPECT_THAT(TokensOf(*vocabulary, "hello<user>hello"),
              ElementsAre(kSpaceHello, kUser, kSpaceHello));
  EXPECT_THAT(TokensOf(*vocabulary, "hello</s>hello", {.add_special = true, .parse_special = true}),
              ElementsAre(1, kSpaceHello, 2, kSpaceHello));
}

TEST(SentencePieceTest, ACharacterWithoutATokenBecomesBytes) {
  auto vocabulary = MakeVocabulary(SmallSentencePieceData());
  EXPECT_THAT(TokensOf(*vocabulary, "\u20ac"),
              ElementsAre(kSpace, kByte0 + 0xe2, kByte0 + 0x82, kByte0 + 0xac));
  EXPECT_THAT(TokensOf(*vocabulary, "\xff"), ElementsAre(kSpace, kByte0 + 0xff));
}

TEST(SentencePieceTest, AByteWithoutAByteTokenBecomesItsTextTokenOrUnknown) {
  VocabularyData data;
  data.model = "llama";
  data.tokens = {"<unk>", "<s>", "</s>", "a", "\n"};
  data.token_types = {2, 3, 3, 1, 1};
  data.add_space_prefix = false;
  EXPECT_THAT(TokensOf(*MakeVocabulary(data), "az\na"), ElementsAre(3, 0, 4, 3));
}

TEST(SentencePieceTest, TheBestScoreIsMergedFirst) {
  VocabularyData data = SmallSentencePieceData();
  data.add_space_prefix = false;
  data.tokens.emplace_back("lo");
  data.token_types.push_back(1);
  data.scores.push_back(-1);  // a better score than those of "he" and "ll"
  EXPECT_THAT(TokensOf(*MakeVocabulary(data), "hello"), ElementsAre(264, kL, 270));
  data.scores.back() = -100;
  EXPECT_THAT(TokensOf(*MakeVocabulary(data), "hello"), ElementsAre(kHello));
  EXPECT_THAT(TokensOf(*MakeVocabulary(data), "hellllo"), ElementsAre(kHell, 265, kO));
}

void ExpectRandomBytesComeBack(const Vocabulary& vocabulary) {
  std::mt19937 random(4);
  for (int i = 0; i < test::Scaled(1000, 1000); ++i) {
    std::string text;
    for (auto length = random() % 30; length > 0; --length) {
      if (random() % 3 == 0) text.push_back(static_cast<char>(random()));
      text.append(random() % 2 == 0 ? "hello " : "\u20ac");
    }
    // Random bytes may form U+2581, the escape of the space; converting the tokens back to text
    // then yields a space instead.
    if (text.find(kEscapedSpace) != text.npos) continue;
    EXPECT_EQ(TextOf(vocabulary, TokensOf(vocabulary, text)), text);
    std::vector<TokenId> with_bos = TokensOf(vocabulary, text, {.add_special = true});
    std::string expected = text.empty() ? text : " " + text;
    EXPECT_EQ(TextOf(vocabulary, with_bos, {.remove_special = true}), expected);
  }
}

TEST(SentencePieceTest, BytesAreRestoredFromTheirTokensExceptTheEscapedSpace) {
  ExpectRandomBytesComeBack(*MakeVocabulary(SmallSentencePieceData()));
}

TEST(SentencePieceTest, APublishedVocabularyRestoresAnyBytesFromTheirTokens) {
  if (const std::string missing = MissingVocabularies(); !missing.empty()) GTEST_SKIP() << missing;
  const auto published = LoadVocabulary("llama-spm");
  ASSERT_NE(published, nullptr);
  ExpectRandomBytesComeBack(*published);
}

TEST(SentencePieceTest, AnEscapedSpaceInTheTextBecomesASpace) {
  auto vocabulary = MakeVocabulary(SmallSentencePieceData());
  EXPECT_EQ(TextOf(*vocabulary, TokensOf(*vocabulary, "h\u2581o")), "h o");
  EXPECT_EQ(UnescapeSpaces("\u2581a\u2581\u2581\xe2\x96"), " a  \xe2\x96");
}

TEST(SentencePieceTest, MegabytesOfOneCharacterAreTokenized) {
  auto vocabulary = MakeVocabulary(SmallSentencePieceData());
  for (char letter : {'l', ' ', '\0', '\xff'}) {
    std::string text(test::IsScaledDown() ? 500'000 : 2'000'000, letter);
    EXPECT_EQ(TextOf(*vocabulary, TokensOf(*vocabulary, text)), text);
  }
}

}  // namespace
}  // namespace kvd::sentencepiece_test
