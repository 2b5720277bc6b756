#include "engine/vocabulary/byte_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/vocabulary/small_models.h"
#include "tests/engine/vocabulary/vocabulary_case.h"

namespace kvd::character_pair_test {
namespace {

using test::SmallLinesData;
using testing::ElementsAre;

// Token ids of SmallLinesData.
constexpr TokenId kSpace = 256, kH = 257, kE = 258, kL = 259, kO = 260, kHe = 261, kLl = 262,
                  kSpaceH = 263, kHell = 264, kLineFeed = 265, kLineFeeds = 266, kAccented = 267,
                  kBos = 268, kUser = 269;

TEST(CharacterPairTest, CharactersOfALineAreMergedAndSpacesEscaped) {
  EXPECT_THAT(TokensOf(SmallLinesData(), "hello"), ElementsAre(kHell, kO));
  EXPECT_THAT(TokensOf(SmallLinesData(), " h o"), ElementsAre(kSpaceH, kSpace, kO));
  EXPECT_THAT(TokensOf(SmallLinesData(), "\u2581h"), ElementsAre(kSpaceH));
  // "h e" merges before "_ h".
  EXPECT_THAT(TokensOf(SmallLinesData(), " he"), ElementsAre(kSpace, kHe));
}

TEST(CharacterPairTest, ARunOfLineFeedsMayBeOneToken) {
  EXPECT_THAT(TokensOf(SmallLinesData(), "h\n\ne"), ElementsAre(kH, kLineFeeds, kE));
  EXPECT_THAT(TokensOf(SmallLinesData(), "\n\n\n"), ElementsAre(kLineFeed, kLineFeed, kLineFeed));
  VocabularyData data = SmallLinesData();
  data.model = "gpt2";
  data.pre = "sarvam-moe";
  EXPECT_THAT(TokensOf(data, "\n\n"), ElementsAre(kLineFeed, kLineFeed));
}

TEST(CharacterPairTest, CharactersWithoutATokenBecomeBytes) {
  EXPECT_THAT(TokensOf(SmallLinesData(), "h\u20ac"), ElementsAre(kH, 0xe2, 0x82, 0xac));
  EXPECT_THAT(TokensOf(SmallLinesData(), "\xffh\xe2\x82"), ElementsAre(0xff, kH, 0xe2, 0x82));
  // The merge of "o" and the letter with the accent is no token.
  EXPECT_THAT(TokensOf(SmallLinesData(), "o\u00e9"), ElementsAre('o', 0xc3, 0xa9));
  EXPECT_THAT(TokensOf(SmallLinesData(), "l\u00e9"), ElementsAre(kL, kAccented));
}

TEST(CharacterPairTest, AByteWithoutATokenIsDropped) {
  VocabularyData data = SmallLinesData();
  data.tokens[0xe2] = "<no byte>";
  data.token_types[0xe2] = static_cast<std::int32_t>(GgufTokenType::kNormal);
  EXPECT_THAT(TokensOf(data, "\u20ac"), ElementsAre(0x82, 0xac));
}

TEST(CharacterPairTest, BosIsAlwaysAdded) {
  VocabularyData data = SmallLinesData();
  data.add_bos = false;
  EXPECT_THAT(TokensOf(data, "ll", {.add_special = true}), ElementsAre(kBos, kLl));
  EXPECT_THAT(TokensOf(data, "<bos><user>", {.parse_special = true}), ElementsAre(kBos, kUser));
  data.bos.reset();
  EXPECT_THAT(TokensOf(data, "ll", {.add_special = true}), ElementsAre(kLl))
      << "the model has no default BOS";
}

TEST(CharacterPairTest, ThePretokenizerOfTheFileIsIgnored) {
  VocabularyData data = SmallLinesData();
  data.pre = "no such name";
  EXPECT_THAT(TokensOf(data, "\n\n"), ElementsAre(kLineFeeds));
  EXPECT_EQ(MakeVocabulary(data)->kind(), Vocabulary::Kind::kCharacterPair);
}

TEST(CharacterPairTest, PiecesContainSpaces) {
  const auto vocabulary = MakeVocabulary(SmallLinesData());
  for (const std::string text : {"hello hello\n\n he\u00e9\xff\u20ac", " ", "\n\n\n  h"}) {
    const auto tokens = vocabulary->Tokenize(text, {});
    ASSERT_TRUE(tokens.has_value());
    EXPECT_EQ(vocabulary->Detokenize(*tokens, {}), text);
  }
  EXPECT_EQ(vocabulary->Piece(kBos, false), "");
  EXPECT_EQ(vocabulary->Piece(kBos, true), "<bos>");
}

TEST(CharacterPairTest, MergesThatAreMissingAreRefused) {
  VocabularyData data = SmallLinesData();
  data.merges.clear();
  const auto made = Vocabulary::Create(data);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, Code::kCorrupt);
  EXPECT_EQ(made.error().message, "tokenizer.ggml.merges: missing or empty");
}

TEST(CharacterPairTest, OnlyKimiMayLackMergesAndNeedsEveryByteToken) {
  VocabularyData data = SmallBytePairData();
  data.pre = "kimi-k2";
  data.merges.clear();
  EXPECT_THAT(TokensOf(data, "he\u20ac"), ElementsAre('h', 'e', 0xe2, 0x82, 0xac));
}

}  // namespace
}  // namespace kvd::character_pair_test
