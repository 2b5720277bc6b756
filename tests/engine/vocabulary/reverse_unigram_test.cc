#include "engine/vocabulary/unigram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "tests/engine/vocabulary/small_models.h"
#include "tests/engine/vocabulary/vocabulary_case.h"
#include "tests/support/test_scale.h"

namespace kvd::reverse_unigram_test {
namespace {

using test::SmallReverseUnigramData;
using testing::ElementsAre;

// Token ids of SmallReverseUnigramData; the byte b is token b + 4.
constexpr TokenId kA = 260, kB = 261, kAb = 262, kAccented = 264, kSpace = 265, kMark = 266,
                  kUser = 268;
constexpr TokenId kFirstByte = 4;

TEST(ReverseUnigramTest, TheTokensWithTheBestSumAreChosen) {
  EXPECT_THAT(TokensOf(SmallReverseUnigramData(), "ab a"), ElementsAre(kAb, kSpace, kA));
  VocabularyData data = SmallReverseUnigramData();
  data.scores[kAb] = -2.5;
  EXPECT_THAT(TokensOf(data, "ab"), ElementsAre(kA, kB));
  data.scores[kAb] = -2;
  EXPECT_THAT(TokensOf(data, "ab"), ElementsAre(kAb)) << "of equal sums the longer token is used";
}

TEST(ReverseUnigramTest, ACharacterThatNoTokenCoversBecomesItsBytes) {
  EXPECT_THAT(TokensOf(SmallReverseUnigramData(), "c\u00e9"),
              ElementsAre('c' + kFirstByte, kAccented));
  EXPECT_THAT(TokensOf(SmallReverseUnigramData(), "\u20aca"),
              ElementsAre(0xe2 + kFirstByte, 0x82 + kFirstByte, 0xac + kFirstByte, kA));
  EXPECT_THAT(TokensOf(SmallReverseUnigramData(), "a\xc3\xff"),
              ElementsAre(kA, 0xc3 + kFirstByte, 0xff + kFirstByte));
}

TEST(ReverseUnigramTest, TokensWithTheLowestScoreAreNotUsed) {
  EXPECT_THAT(TokensOf(SmallReverseUnigramData(), "aa"), ElementsAre(kA, kA));
  VocabularyData data = SmallReverseUnigramData();
  for (const TokenId token : {kA, kAb}) {
    data.scores[static_cast<std::size_t>(token)] = -std::numeric_limits<float>::infinity();
  }
  EXPECT_THAT(TokensOf(data, "ab"), ElementsAre('a' + kFirstByte, kB));
}

TEST(ReverseUnigramTest, AMarkHidesTheShorterTokensThatBeginWhereItDoes) {
  EXPECT_THAT(TokensOf(SmallReverseUnigramData(), "bb"), ElementsAre(kMark));
  VocabularyData data = SmallReverseUnigramData();
  data.scores[kMark] = -999;
  EXPECT_THAT(TokensOf(data, "bb"), ElementsAre(kB, kB));
}

// The state before a mark is empty, so that the character there, which does not extend the mark, is
// not searched.
TEST(ReverseUnigramTest, ACharacterBeforeAMarkBecomesBytes) {
  EXPECT_THAT(TokensOf(SmallReverseUnigramData(), "abb"), ElementsAre('a' + kFirstByte, kMark));
}

TEST(ReverseUnigramTest, AByteOrderMarkAtTheStartIsDropped) {
  EXPECT_THAT(TokensOf(SmallReverseUnigramData(), "\ufeffab"), ElementsAre(kAb));
  EXPECT_THAT(TokensOf(SmallReverseUnigramData(), "a\ufeff"),
              ElementsAre(kA, 0xef + kFirstByte, 0xbb + kFirstByte, 0xbf + kFirstByte));
  EXPECT_THAT(TokensOf(SmallReverseUnigramData(), "\ufeff"), ElementsAre());
  EXPECT_THAT(TokensOf(SmallReverseUnigramData(), "a<user>\ufeff\ufeffb").size(), 6u)
      << "one is dropped after each special token";
}

TEST(ReverseUnigramTest, NoSpecialTokenIsAddedAndPiecesAreTheTokenTexts) {
  VocabularyData data = SmallReverseUnigramData();
  data.add_bos = data.add_eos = true;
  EXPECT_THAT(TokensOf(data, "a", {.add_special = true}), ElementsAre(kA));
  const auto vocabulary = MakeVocabulary(data);
  EXPECT_EQ(vocabulary->bos(), 1);
  EXPECT_EQ(vocabulary->Detokenize(std::vector{kAb, kSpace, TokenId{0xc3 + kFirstByte},
                                               TokenId{0xa9 + kFirstByte}, kUser},
                                   {}),
            "ab \u00e9<user>");
}

TEST(ReverseUnigramTest, AByteWithoutATokenIsRefused) {
  VocabularyData data = SmallReverseUnigramData();
  data.tokens[kFirstByte + 7] = "other";
  data.token_types[kFirstByte + 7] = static_cast<std::int32_t>(GgufTokenType::kNormal);
  const auto made = Vocabulary::Create(data);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, Code::kCorrupt);
  EXPECT_EQ(made.error().message, "tokenizer.ggml.tokens: byte 7 has no token");
}

// The best sequence from each place on, by trying every token there, longer ones first.
std::vector<TokenId> NaiveTokens(const VocabularyData& data, const std::string& text) {
  std::vector<double> costs(text.size() + 1);
  std::vector<TokenId> first(text.size());
  for (std::size_t at = text.size(); at-- > 0;) {
    std::optional<double> best;
    for (std::size_t bytes = text.size() - at; bytes > 0; --bytes) {
      const auto found = std::ranges::find(data.tokens, text.substr(at, bytes));
      if (found == data.tokens.end()) continue;
      const auto token = static_cast<std::size_t>(found - data.tokens.begin());
      const double cost = costs[at + bytes] - data.scores[token];
      if (best && *best <= cost) continue;
      best = cost;
      first[at] = static_cast<TokenId>(token);
    }
    costs[at] = *best;
  }
  std::vector<TokenId> tokens;
  for (std::size_t at = 0; at < text.size();
       at += data.tokens[static_cast<std::size_t>(tokens.back())].size())
    tokens.push_back(first[at]);
  return tokens;
}

TEST(ReverseUnigramTest, RandomVocabulariesGiveTheTokensOfANaiveSearch) {
  std::mt19937 random(3);
  for (int round = 0; round < test::Scaled(60, 60); ++round) {
    VocabularyData data = SmallReverseUnigramData();
    data.tokens.resize(260);
    data.token_types.resize(260);
    data.scores.resize(260);
    const auto add = [&](std::string text) {
      if (std::ranges::find(data.tokens, text) != data.tokens.end()) return;
      data.tokens.push_back(std::move(text));
      data.token_types.push_back(static_cast<std::int32_t>(GgufTokenType::kNormal));
      data.scores.push_back(-static_cast<float>(random() % 8));
    };
    for (const char* letter : {"x", "y", "z"}) add(letter);
    for (int i = 0; i < 12; ++i) {
      std::string text;
      for (auto length = 2 + random() % 4; length > 0; --length) text += "xyz"[random() % 3];
      add(std::move(text));
    }
    std::string text;
    for (auto length = random() % 40; length > 0; --length) text += "xyz"[random() % 3];
    EXPECT_EQ(TokensOf(data, text), NaiveTokens(data, text)) << text;
  }
}

}  // namespace
}  // namespace kvd::reverse_unigram_test
