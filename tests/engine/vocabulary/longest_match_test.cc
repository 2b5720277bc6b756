#include "engine/vocabulary/simple_tokenizers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/engine/vocabulary/small_models.h"
#include "tests/engine/vocabulary/vocabulary_case.h"
#include "tests/support/test_scale.h"

namespace kvd::longest_match_test {
namespace {

using test::SmallLongestMatchData;
using testing::ElementsAre;
using testing::HasSubstr;

// The byte b is token b + 1.
constexpr TokenId kHe = 257, kHell = 258, kHelloWor = 259, kLineEnd = 260, kTwoBytes = 261,
                  kApostrophe = 262, kUnused = 263;

TEST(LongestMatchTest, EachTokenIsTheLongestMatch) {
  EXPECT_THAT(TokensOf(SmallLongestMatchData(), "hello"), ElementsAre(kHell, 'o' + 1));
  EXPECT_THAT(TokensOf(SmallLongestMatchData(), "hello world"),
              ElementsAre(kHelloWor, 'l' + 1, 'd' + 1));
  EXPECT_THAT(TokensOf(SmallLongestMatchData(), "hel"), ElementsAre(kHe, 'l' + 1));
}

TEST(LongestMatchTest, TokensMatchBytesAndMayCutCharacters) {
  EXPECT_THAT(TokensOf(SmallLongestMatchData(), "\u4f60\r\n"),
              ElementsAre(kTwoBytes, 0xa0 + 1, kLineEnd));
  EXPECT_THAT(TokensOf(SmallLongestMatchData(), "\xff\\"), ElementsAre(0xff + 1, '\\' + 1));
}

TEST(LongestMatchTest, EveryTokenIsMatchedAndTheLaterOfEqualOnesIsUsed) {
  EXPECT_THAT(TokensOf(SmallLongestMatchData(), "unused<s>"), ElementsAre(kUnused, 0));
  EXPECT_THAT(TokensOf(SmallLongestMatchData(), "'"), ElementsAre(kApostrophe));
}

TEST(LongestMatchTest, NoSpecialTokenIsAdded) {
  VocabularyData data = SmallLongestMatchData();
  data.bos = 0;
  data.add_bos = true;
  EXPECT_THAT(TokensOf(data, "he", {.add_special = true}), ElementsAre(kHe));
  EXPECT_FALSE(MakeVocabulary(data)->add_bos());
}

TEST(LongestMatchTest, AByteWithoutATokenIsUnknownOrDropped) {
  VocabularyData data = SmallLongestMatchData();
  data.tokens['q' + 1] = "qqq";
  EXPECT_THAT(TokensOf(data, "heqqhe"), ElementsAre(kHe, kHe));
  data.unk = 0;
  EXPECT_THAT(TokensOf(data, "qqhe"), ElementsAre(0, 0, kHe));
  EXPECT_THAT(TokensOf(data, "qqq"), ElementsAre('q' + 1));
}

TEST(LongestMatchTest, AnyBytesAreRestoredFromTheirTokens) {
  const auto vocabulary = MakeVocabulary(SmallLongestMatchData());
  std::mt19937 random(11);
  for (int i = 0; i < test::Scaled(300, 300); ++i) {
    std::string text;
    for (auto length = random() % 20; length > 0; --length) {
      if (random() % 2 == 0) text.push_back(static_cast<char>(random()));
      text.append(random() % 2 == 0 ? "hello wor" : "\u4f60");
    }
    const auto tokens = vocabulary->Tokenize(text, {});
    ASSERT_TRUE(tokens.has_value());
    EXPECT_EQ(vocabulary->Detokenize(*tokens, {.unparse_special = true}), text);
  }
}

TEST(LongestMatchTest, EscapesAreThoseOfPythonBytes) {
  EXPECT_EQ(UnescapeBytes(R"(a\t\n\r\\\'\"\x00\xfFb)"), std::string("a\t\n\r\\'\"\0\xff"
                                                                    "b",
                                                                    10));
  EXPECT_EQ(UnescapeBytes("\u00e9\\q"), "\u00e9q");
}

TEST(LongestMatchTest, AnIncompleteEscapeIsRefusedWithItsToken) {
  for (const char* text : {"ab\\", "\\x", "\\x4", "\\xg0", "\\x0g"}) {
    VocabularyData data = SmallLongestMatchData();
    data.tokens[kHell] = text;
    const auto made = Vocabulary::Create(data);
    ASSERT_FALSE(made.has_value()) << text;
    EXPECT_EQ(made.error().code, Code::kCorrupt);
    EXPECT_THAT(made.error().message, HasSubstr("tokenizer.ggml.tokens: the text of token 258 "));
  }
}

}  // namespace
}  // namespace kvd::longest_match_test
