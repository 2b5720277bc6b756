#include "engine/vocabulary/rank_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/vocabulary/vocabulary_case.h"

namespace kvd {
namespace {

using testing::ElementsAre;

constexpr TokenId kCls = 1, kSep = 2, kHello = 3, kWorld = 4, kAnd = 5;

VocabularyData Words() {
  VocabularyData data;
  data.model = "bert";
  data.tokens = {"[UNK]", "[CLS]", "[SEP]", "\u2581hello", "\u2581world", "\u2581and"};
  data.token_types = {3, 3, 3, 1, 1, 1};
  data.unk = 0;
  data.bos = kCls;
  data.sep = kSep;
  return data;
}

std::vector<TokenId> TokensOf(const VocabularyData& data, std::string_view query,
                              std::string_view document) {
  const auto vocabulary = MakeVocabulary(data);
  const auto tokens = RankTokens(*vocabulary, query, document);
  EXPECT_TRUE(tokens.has_value()) << tokens.error().message;
  return tokens ? *tokens : std::vector<TokenId>();
}

TEST(RankTokensTest, SpecialTokensSeparateQueryAndDocument) {
  EXPECT_THAT(TokensOf(Words(), "hello", "world and hello"),
              ElementsAre(kCls, kHello, kSep, kWorld, kAnd, kHello, kSep));
  EXPECT_THAT(TokensOf(Words(), "", ""), ElementsAre(kCls, kSep, kSep));
}

TEST(RankTokensTest, RobertaVocabulariesHaveTwoSeparators) {
  constexpr TokenId kHe = 256, kByteHello = 259;
  VocabularyData data = SmallBytePairData();
  const auto begin = static_cast<TokenId>(data.tokens.size());
  const TokenId end = begin + 1;
  for (const char* const text : {"<s>", "</s>"}) {
    data.tokens.emplace_back(text);
    data.token_types.push_back(3);
    if (!data.scores.empty()) data.scores.push_back(0);
  }
  data.bos = static_cast<std::uint32_t>(begin);
  data.eos = data.sep = static_cast<std::uint32_t>(end);
  data.add_bos = data.add_eos = true;
  for (const char* const pre : {"jina-v1-en", "jina-v2-code", "roberta-bpe"}) {
    data.pre = pre;
    data.add_sep.reset();
    EXPECT_THAT(TokensOf(data, "hello", "he"), ElementsAre(begin, kByteHello, end, end, kHe, end))
        << pre;
    data.add_sep = false;
    EXPECT_THAT(TokensOf(data, "hello", "he"), ElementsAre(begin, kByteHello, end, kHe, end))
        << pre;
  }
}

TEST(RankTokensTest, SpecialTokensInTheTextsAreOrdinaryTextWithoutATemplate) {
  const auto tokens = TokensOf(Words(), "hello", "[SEP]");
  EXPECT_EQ(std::ranges::count(tokens, kSep), 2);
}

TEST(RankTokensTest, ATemplateIsFilledWithBothTexts) {
  VocabularyData data = Words();
  data.chat_templates = {{"rerank", "[CLS] {document} and {query} [SEP]"}};
  EXPECT_THAT(TokensOf(data, "hello", "world"), ElementsAre(kCls, kWorld, kAnd, kHello, kSep));
}

TEST(RankTokensTest, PlaceholdersWithinATextAreNotFilled) {
  VocabularyData data = Words();
  data.chat_templates = {{"rerank", "{query} and {document}"}};
  const auto plain = TokensOf(data, "hello", "world");
  EXPECT_THAT(plain, ElementsAre(kHello, kAnd, kWorld));
  const auto tricky = TokensOf(data, "{document}", "hello");
  EXPECT_EQ(std::ranges::count(tricky, kHello), 1);
}

TEST(RankTokensTest, ATemplateMayLeaveATextOut) {
  VocabularyData data = Words();
  data.chat_templates = {{"rerank", "and {document}"}};
  EXPECT_THAT(TokensOf(data, "hello", "world"), ElementsAre(kAnd, kWorld));
}

TEST(RankTokensTest, AVocabularyWithoutTokenizerRefuses) {
  VocabularyData data;
  data.model = "no_vocab";
  data.vocab_size = 8;
  const auto vocabulary = MakeVocabulary(std::move(data));
  const auto tokens = RankTokens(*vocabulary, "a", "b");
  ASSERT_FALSE(tokens.has_value());
  EXPECT_EQ(tokens.error().code, Code::kNoTokenizer);
}

}  // namespace
}  // namespace kvd
