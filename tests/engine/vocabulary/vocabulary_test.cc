#include "engine/vocabulary/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/engine/vocabulary/vocabulary_case.h"

namespace kvd {
namespace {

using testing::HasSubstr;

void ExpectCorrupt(VocabularyData data, std::string_view part) {
  auto made = Vocabulary::Create(std::move(data));
  ASSERT_FALSE(made.has_value()) << part;
  EXPECT_EQ(made.error().code, Code::kCorrupt);
  EXPECT_THAT(made.error().message, HasSubstr(std::string(part)));
}

TEST(VocabularyTest, ArraysOfDifferentLengthsAreRefused) {
  VocabularyData data = SmallBytePairData();
  data.scores.pop_back();
  ExpectCorrupt(data, "tokenizer.ggml.scores: 262 values for 263 tokens");
  data = SmallBytePairData();
  data.token_types.push_back(1);
  ExpectCorrupt(data, "tokenizer.ggml.token_type: 264 values for 263 tokens");
  data = SmallBytePairData();
  data.scores.clear();
  data.token_types.clear();
  EXPECT_TRUE(Vocabulary::Create(data).has_value()) << "both may be absent";
}

TEST(VocabularyTest, TokensThatOccurTwiceAreRefused) {
  VocabularyData data = SmallBytePairData();
  data.tokens[200] = data.tokens[100];
  ExpectCorrupt(data, "tokenizer.ggml.tokens: tokens 100 and 200 have the same text");
}

TEST(VocabularyTest, AnEmptyTokenGetsAPlaceholderText) {
  VocabularyData data = SmallBytePairData();
  data.tokens[262].clear();
  auto vocabulary = MakeVocabulary(data);
  EXPECT_EQ(*vocabulary->TokenText(262), "[EMPTY_262]");
}

TEST(VocabularyTest, OversizedTokensAndArraysAreRefused) {
  VocabularyData data = SmallBytePairData();
  data.tokens[5] = std::string(TokenTable::kTokenBytesMax + 1, 'x');
  ExpectCorrupt(data, "tokenizer.ggml.tokens: token 5 has 4097 bytes, the limit is 4096");
  data = VocabularyData();
  data.model = "llama";
  data.tokens.resize(TokenTable::kTokenCountMax + 1);
  ExpectCorrupt(std::move(data), "tokens, the limit is");
  data = VocabularyData();
  data.model = "no_vocab";
  data.vocab_size = 0xffffffffu;
  ExpectCorrupt(data, "vocab_size: 4294967295, the limit is");
}

TEST(VocabularyTest, AScoreThatIsNanIsRefused) {
  VocabularyData data = SmallSentencePieceData();
  data.scores[7] = std::numeric_limits<float>::quiet_NaN();
  ExpectCorrupt(data, "tokenizer.ggml.scores: the score of token 7");
  data.scores[7] = -std::numeric_limits<float>::infinity();
  EXPECT_TRUE(Vocabulary::Create(data).has_value());
}

TEST(VocabularyTest, AByteTokenThatNamesNoByteIsRefused) {
  for (const char* text : {"<0x4>", "<0xG1>", "<0x1G>", "0x41", "<0x41]", ""}) {
    VocabularyData data = SmallSentencePieceData();
    data.tokens[7] = text;
    ExpectCorrupt(data, "byte token 7");
  }
  EXPECT_EQ(ByteOfHexText("<0xfF>"), 255);
}

TEST(VocabularyTest, AKnownTokenizerWithoutTokensIsRefused) {
  for (const char* model : {"llama", "gpt2"}) {
    VocabularyData data;
    data.model = model;
    data.vocab_size = 100;
    ExpectCorrupt(data, "tokenizer.ggml.tokens: missing or empty");
  }
}

TEST(VocabularyTest, WithoutATokenizerIdsWorkAndTextVerbsAreRefused) {
  struct Case {
    const char* model;
    const char* pre;
    const char* reason;
  };
  for (const Case& one :
       {Case{"no_vocab", "", "no vocabulary"}, Case{"none", "", "no vocabulary"},
        Case{"", "", "tokenizer.ggml.model: missing"},
        Case{"rwkv9", "", "tokenizer.ggml.model: 'rwkv9' is not known"},
        Case{"gpt2", "tekken-9", "tokenizer.ggml.pre: 'tekken-9' is not known"}}) {
    VocabularyData data;
    data.model = one.model;
    data.pre = one.pre;
    data.vocab_size = 128;
    data.chat_templates = {{"", "chatml"}};
    auto vocabulary = MakeVocabulary(data);
    ASSERT_NE(vocabulary, nullptr);
    EXPECT_EQ(vocabulary->kind(), Vocabulary::Kind::kNone);
    EXPECT_THAT(std::string(vocabulary->no_tokenizer_reason()), HasSubstr(one.reason));
    EXPECT_EQ(vocabulary->vocab_size(), 128u);
    EXPECT_TRUE(vocabulary->Contains(127));
    EXPECT_FALSE(vocabulary->Contains(128));
    EXPECT_EQ(vocabulary->bos(), kNoToken);
    EXPECT_EQ(vocabulary->eos(), kNoToken);
    EXPECT_FALSE(vocabulary->add_bos());
    EXPECT_TRUE(vocabulary->end_of_generation().empty());
    EXPECT_EQ(vocabulary->TemplateText(""), "chatml");
    EXPECT_EQ(vocabulary->TemplateText("tool_use"), "");
    EXPECT_EQ(vocabulary->Tokenize("", {}).error().code, Code::kNoTokenizer);
    EXPECT_THAT(vocabulary->Tokenize("a", {}).error().message, HasSubstr(one.reason));
    EXPECT_EQ(vocabulary->Detokenize({}, {}).error().code, Code::kNoTokenizer);
    EXPECT_EQ(vocabulary->Piece(1, true).error().code, Code::kNoTokenizer);
    EXPECT_EQ(vocabulary->TokenText(1).error().code, Code::kNoTokenizer);
  }
}

TEST(VocabularyTest, AnUnknownTokenizerKeepsTheSpecialIdsOfTheFile) {
  VocabularyData data = SmallBytePairData();
  data.model = "rwkv9";
  data.bos = 3;
  auto vocabulary = MakeVocabulary(data);
  EXPECT_EQ(vocabulary->vocab_size(), 263u);
  EXPECT_EQ(vocabulary->bos(), 3);
  EXPECT_EQ(vocabulary->eos(), 261);
  EXPECT_TRUE(vocabulary->IsEndOfGeneration(261));
  EXPECT_FALSE(vocabulary->add_bos());
}

TEST(VocabularyTest, AnIdOutsideTheVocabularyIsRefusedByEveryTextVerb) {
  auto vocabulary = MakeVocabulary(SmallBytePairData());
  for (TokenId token :
       {-1, 263, std::numeric_limits<TokenId>::max(), std::numeric_limits<TokenId>::min()}) {
    const TokenId tokens[] = {'a', token};
    EXPECT_EQ(vocabulary->Detokenize(tokens, {}).error().code, Code::kInvalidArgument);
    EXPECT_EQ(vocabulary->Piece(token, true).error().code, Code::kInvalidArgument);
    EXPECT_THAT(vocabulary->TokenText(token).error().message, HasSubstr(std::to_string(token)));
  }
}

TEST(VocabularyTest, ATextBeyondTheLimitIsRefused) {
  auto vocabulary = MakeVocabulary(SmallBytePairData());
  Result<std::vector<TokenId>> tokens =
      vocabulary->Tokenize(std::string(Vocabulary::kTextBytesMax + 1, 'a'), {});
  ASSERT_FALSE(tokens.has_value());
  EXPECT_EQ(tokens.error().code, Code::kInvalidArgument);
  EXPECT_THAT(tokens.error().message, HasSubstr("16777217 bytes, the limit is 16777216"));
}

TEST(VocabularyTest, APieceIsTheTextThatATokenAdds) {
  auto byte_pair = MakeVocabulary(SmallBytePairData());
  EXPECT_EQ(*byte_pair->Piece(260, false), " hello");
  EXPECT_EQ(*byte_pair->TokenText(260), "\u0120hello");
  EXPECT_EQ(*byte_pair->Piece(261, false), "") << "control";
  EXPECT_EQ(*byte_pair->Piece(261, true), "<|end|>");
  EXPECT_EQ(*byte_pair->Piece(0, false), std::string_view("\0", 1));
  auto sentencepiece = MakeVocabulary(SmallSentencePieceData());
  EXPECT_EQ(*sentencepiece->Piece(268, false), " hello");
  EXPECT_EQ(*sentencepiece->Piece(3 + 'a', false), "a");
  EXPECT_TRUE(sentencepiece->IsByte(3 + 'a'));
  EXPECT_FALSE(sentencepiece->IsByte(268));
  EXPECT_EQ(*sentencepiece->Piece(0, false), "") << "unknown";
  EXPECT_EQ(*sentencepiece->Piece(0, true), "<unk>");
}

TEST(VocabularyTest, UnusedAndUndefinedTokensHaveNoText) {
  for (std::int32_t type : {static_cast<std::int32_t>(GgufTokenType::kUnused), 0, 99, -1}) {
    VocabularyData data = SmallBytePairData();
    data.token_types[262] = type;
    EXPECT_EQ(*MakeVocabulary(data)->Piece(262, true), "");
  }
}

TEST(VocabularyTest, OnlyTheSpaceOfTheFirstTokenIsRemoved) {
  auto vocabulary = MakeVocabulary(SmallSentencePieceData());
  const TokenId tokens[] = {1, 268, 268};
  EXPECT_EQ(*vocabulary->Detokenize(std::span(tokens).subspan(1), {}), "hello hello");
  EXPECT_EQ(*vocabulary->Detokenize(tokens, {}), " hello hello") << "BOS is the first token";
  EXPECT_EQ(*vocabulary->Detokenize(tokens, {.remove_special = true}), " hello hello");
  EXPECT_EQ(*vocabulary->Detokenize(tokens, {.unparse_special = true}), "<s> hello hello");
}

TEST(VocabularyTest, EveryKindHasAName) {
  EXPECT_EQ(VocabularyKindName(Vocabulary::Kind::kNone), "none");
  EXPECT_EQ(VocabularyKindName(Vocabulary::Kind::kSentencePiece), "sentencepiece");
  EXPECT_EQ(VocabularyKindName(Vocabulary::Kind::kBytePair), "byte_pair");
  EXPECT_EQ(VocabularyKindName(Vocabulary::Kind::kWordPiece), "wordpiece");
  EXPECT_EQ(VocabularyKindName(Vocabulary::Kind::kUnigram), "unigram");
  EXPECT_EQ(VocabularyKindName(Vocabulary::Kind::kCharacterPair), "character_pair");
  EXPECT_EQ(VocabularyKindName(Vocabulary::Kind::kReverseUnigram), "reverse_unigram");
  EXPECT_EQ(VocabularyKindName(Vocabulary::Kind::kLongestMatch), "longest_match");
}

}  // namespace
}  // namespace kvd
