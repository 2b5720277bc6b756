#include "engine/vocabulary/special_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/vocabulary/vocabulary_case.h"

namespace kvd {
namespace {

using testing::ElementsAre;

constexpr TokenId kFirst = 261;  // id of the first token that a test adds

// Returns SmallBytePairData without its special tokens, followed by tokens with these texts.
VocabularyData With(std::initializer_list<std::string_view> texts,
                    GgufTokenType type = GgufTokenType::kNormal) {
  VocabularyData data = SmallBytePairData();
  data.tokens.resize(kFirst);
  data.token_types.resize(kFirst);
  data.eos.reset();
  for (std::string_view text : texts) {
    data.tokens.emplace_back(text);
    data.token_types.push_back(static_cast<std::int32_t>(type));
  }
  data.scores.clear();
  return data;
}

std::vector<TokenId> TokensOf(const Vocabulary& vocabulary, std::string_view text,
                              TokenizeOptions options) {
  Result<std::vector<TokenId>> tokens = vocabulary.Tokenize(text, options);
  EXPECT_TRUE(tokens.has_value()) << tokens.error().message;
  return tokens ? *tokens : std::vector<TokenId>();
}

TEST(SpecialTokensTest, DefaultsDependOnTheKindOfTokenizer) {
  auto sentencepiece = MakeVocabulary(SmallSentencePieceData());
  EXPECT_EQ(sentencepiece->bos(), 1);
  EXPECT_EQ(sentencepiece->eos(), 2);
  EXPECT_EQ(sentencepiece->special().unk, 0);
  EXPECT_TRUE(sentencepiece->add_bos());
  EXPECT_FALSE(sentencepiece->add_eos());
  auto byte_pair = MakeVocabulary(With({}));
  EXPECT_EQ(byte_pair->bos(), 11);
  EXPECT_EQ(byte_pair->eos(), 11);
  EXPECT_EQ(byte_pair->special().unk, kNoToken);
  EXPECT_FALSE(byte_pair->add_bos());
  VocabularyData llama3 = With({});
  llama3.pre = "llama-bpe";
  EXPECT_TRUE(MakeVocabulary(llama3)->add_bos());
  llama3.add_bos = false;
  EXPECT_FALSE(MakeVocabulary(llama3)->add_bos());
  VocabularyData glm = With({});
  glm.pre = "glm4";
  glm.add_bos = true;
  EXPECT_EQ(MakeVocabulary(glm)->bos(), kNoToken);
  EXPECT_FALSE(MakeVocabulary(glm)->add_bos()) << "the vocabulary has no BOS token to add";
}

TEST(SpecialTokensTest, BosAndEosAreAddedAsTheFileSays) {
  VocabularyData data = With({"<s>", "</s>"}, GgufTokenType::kControl);
  data.bos = kFirst;
  data.eos = kFirst + 1;
  data.add_bos = true;
  data.add_eos = true;
  auto vocabulary = MakeVocabulary(data);
  EXPECT_THAT(TokensOf(*vocabulary, "hello", {.add_special = true}),
              ElementsAre(kFirst, 259, kFirst + 1));
  EXPECT_THAT(TokensOf(*vocabulary, "", {.add_special = true}), ElementsAre(kFirst, kFirst + 1));
  EXPECT_THAT(TokensOf(*vocabulary, "hello", {}), ElementsAre(259));
  const TokenId tokens[] = {kFirst, 259, kFirst + 1};
  EXPECT_EQ(*vocabulary->Detokenize(tokens, {.unparse_special = true}), "<s>hello</s>");
  EXPECT_EQ(*vocabulary->Detokenize(tokens, {.remove_special = true, .unparse_special = true}),
            "hello");
  EXPECT_EQ(*vocabulary->Detokenize(tokens, {}), "hello");
}

TEST(SpecialTokensTest, AnIdOutsideTheVocabularyIsRefusedAndMinusOneMeansNone) {
  std::optional<std::uint32_t> VocabularyData::* const ids[] = {
      &VocabularyData::bos,     &VocabularyData::eos,     &VocabularyData::eot,
      &VocabularyData::eom,     &VocabularyData::unk,     &VocabularyData::sep,
      &VocabularyData::pad,     &VocabularyData::mask,    &VocabularyData::fim_pre,
      &VocabularyData::fim_suf, &VocabularyData::fim_mid, &VocabularyData::fim_pad,
      &VocabularyData::fim_rep, &VocabularyData::fim_sep};
  for (auto id : ids) {
    VocabularyData data = With({});
    data.*id = kFirst;
    auto made = Vocabulary::Create(data);
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code, Code::kCorrupt);
    EXPECT_NE(made.error().message.find("token_id: 261 is not a token"), std::string::npos)
        << made.error().message;
    data.*id = 0xffffffffu;
    EXPECT_TRUE(Vocabulary::Create(data).has_value());
  }
}

TEST(SpecialTokensTest, EveryKnownTextEndsGenerationAndBecomesAControlToken) {
  for (std::string_view text : {"<|eot_id|>",
                                "<|im_end|>",
                                "<|end|>",
                                "<|return|>",
                                "<|call|>",
                                "<|flush|>",
                                "<|calls|>",
                                "<end_of_turn>",
                                "<|endoftext|>",
                                "</s>",
                                "<|eom_id|>",
                                "<EOT>",
                                "_<EOT>",
                                "[EOT]",
                                "[EOS]",
                                "<|end_of_text|>",
                                "<end_of_utterance>",
                                "<eos>",
                                "<turn|>",
                                "<|tool_response>",
                                "<\uff5cend\u2581of\u2581sentence\uff5c>",
                                "[e~["}) {
    VocabularyData data = With({text, "<|user|>"});
    data.eos = kFirst;
    data.eos.reset();
    auto vocabulary = MakeVocabulary(data);
    EXPECT_THAT(vocabulary->end_of_generation(), ElementsAre(11, kFirst)) << text;
    EXPECT_TRUE(vocabulary->IsEndOfGeneration(kFirst));
    EXPECT_FALSE(vocabulary->IsEndOfGeneration(kFirst + 1));
    EXPECT_FALSE(vocabulary->IsEndOfGeneration(kNoToken));
    EXPECT_TRUE(vocabulary->IsControl(kFirst)) << text;
    EXPECT_FALSE(vocabulary->IsControl(kFirst + 1));
    EXPECT_FALSE(vocabulary->IsControl(100000));
  }
}

TEST(SpecialTokensTest, TheIdsOfTheFileEndGenerationWhateverTheirText) {
  VocabularyData data = With({"a1", "a2", "a3", "a4", "a5", "a6"});
  data.eos = kFirst;
  data.eot = kFirst + 1;
  data.eom = kFirst + 2;
  data.fim_pad = kFirst + 3;
  data.fim_rep = kFirst + 4;
  data.fim_sep = kFirst + 5;
  auto vocabulary = MakeVocabulary(data);
  EXPECT_EQ(vocabulary->end_of_generation().size(), 6u);
  EXPECT_EQ(vocabulary->eot(), kFirst + 1);
  EXPECT_EQ(vocabulary->special().eom, kFirst + 2);
}

TEST(SpecialTokensTest, AMissingRoleIsFilledByAKnownText) {
  auto vocabulary =
      MakeVocabulary(With({"<|im_end|>", "<|eom_id|>", "<fim_prefix>", "<fim_suffix>",
                           "<fim_middle>", "<fim_pad>", "<reponame>", "<|file_sep|>"}));
  const SpecialTokens& special = vocabulary->special();
  EXPECT_THAT((std::vector{special.eot, special.eom, special.fim_pre, special.fim_suf,
                           special.fim_mid, special.fim_pad, special.fim_rep, special.fim_sep}),
              ElementsAre(261, 262, 263, 264, 265, 266, 267, 268));
  EXPECT_THAT(vocabulary->end_of_generation(), ElementsAre(11, 261, 262, 266, 267, 268));
  EXPECT_TRUE(vocabulary->IsControl(263));
}

TEST(SpecialTokensTest, TheEndTokenEndsOnlyAMessageIfOthersEndTheTurn) {
  auto harmony = MakeVocabulary(
      With({"<|end|>", "<|return|>", "<|call|>", "<|channel|>"}, GgufTokenType::kControl));
  EXPECT_THAT(harmony->end_of_generation(), ElementsAre(11, kFirst + 1, kFirst + 2));
  EXPECT_EQ(*harmony->Piece(kFirst, false), "<|end|>") << "shown";
  EXPECT_EQ(*harmony->Piece(kFirst + 3, false), "<|channel|>") << "shown";
  auto solar = MakeVocabulary(With({"<|end|>", "<|flush|>", "<|calls|>"}));
  EXPECT_FALSE(solar->IsEndOfGeneration(kFirst));
  auto plain = MakeVocabulary(With({"<|end|>", "<|call|>"}));
  EXPECT_TRUE(plain->IsEndOfGeneration(kFirst));
  auto gemma4 = MakeVocabulary(With({"</s>", "<|tool_response>"}));
  EXPECT_THAT(gemma4->end_of_generation(), ElementsAre(11, kFirst + 1));
}

TEST(SpecialPartitionTest, ControlTokensAreParsedOnlyOnRequest) {
  auto vocabulary = MakeVocabulary(SmallBytePairData());
  EXPECT_THAT(TokensOf(*vocabulary, "hello<|end|>", {.parse_special = true}),
              ElementsAre(259, 261));
  EXPECT_THAT(TokensOf(*vocabulary, "<|end|>", {}), ElementsAre('<', '|', 'e', 'n', 'd', '|', '>'));
  EXPECT_THAT(TokensOf(*vocabulary, "<|end|><|end|>he", {.parse_special = true}),
              ElementsAre(261, 261, 256));
}

TEST(SpecialPartitionTest, UserDefinedTokensAreAlwaysParsed) {
  auto vocabulary = MakeVocabulary(SmallBytePairData());
  EXPECT_THAT(TokensOf(*vocabulary, "he<user>hello", {}), ElementsAre(256, 262, 259));
  EXPECT_EQ(*vocabulary->Piece(262, false), "<user>");
}

TEST(SpecialPartitionTest, LongerTokensAreFoundBeforeShorterOnesAndEqualOnesInOrder) {
  auto vocabulary = MakeVocabulary(With({"ab", "abc", "bcd", "\t\t"}, GgufTokenType::kUserDefined));
  EXPECT_THAT(TokensOf(*vocabulary, "abcd", {}), ElementsAre(kFirst + 1, 'd'));
  EXPECT_THAT(TokensOf(*vocabulary, "abbcd", {}), ElementsAre(kFirst, kFirst + 2));
  EXPECT_THAT(TokensOf(*vocabulary, "a\t\t\tb", {}), ElementsAre('a', kFirst + 3, '\t', 'b'));
}

TEST(SpecialPartitionTest, Phi3RemovesWhiteSpaceAfterSpecialTokens) {
  VocabularyData data = With({"<|user|>", "<|endoftext|>"}, GgufTokenType::kControl);
  data.general_name = "My Phi-3 mini";
  auto vocabulary = MakeVocabulary(data);
  EXPECT_THAT(TokensOf(*vocabulary, "he<|user|> \n\t hello", {.parse_special = true}),
              ElementsAre(256, kFirst, 259));
  EXPECT_THAT(TokensOf(*vocabulary, "<|user|> \n", {.parse_special = true}), ElementsAre(kFirst));
  EXPECT_THAT(TokensOf(*vocabulary, "<|endoftext|> hello", {.parse_special = true}),
              ElementsAre(kFirst + 1, 260));
}

TEST(SpecialPartitionTest, MaskTokensRemoveWhiteSpaceBeforeThem) {
  VocabularyData jina = With({"<mask>"}, GgufTokenType::kControl);
  jina.pre = "jina-v2-de";
  EXPECT_THAT(TokensOf(*MakeVocabulary(jina), "he \n<mask>hello", {.parse_special = true}),
              ElementsAre(256, kFirst, 259));
  jina.pre = "gpt-2";
  jina.architecture = "jina-bert-v3";
  EXPECT_THAT(TokensOf(*MakeVocabulary(jina), "he \n<mask>hello", {.parse_special = true}),
              ElementsAre(256, kFirst, 259));
  jina.architecture = "bert";
  EXPECT_THAT(TokensOf(*MakeVocabulary(jina), "he \n<mask>hello", {.parse_special = true}),
              ElementsAre(256, ' ', '\n', kFirst, 259));
  VocabularyData bert = With({"[MASK]"}, GgufTokenType::kControl);
  bert.general_name = "Modern-BERT";
  EXPECT_THAT(TokensOf(*MakeVocabulary(bert), " \n[MASK]", {.parse_special = true}),
              ElementsAre(kFirst));
  VocabularyData none = With({});
  none.general_name = "modern-bert";
  EXPECT_NE(MakeVocabulary(none), nullptr);
}

TEST(SpecialPartitionTest, ManySpecialTokensInALongTextAreAllFound) {
  VocabularyData data = With({});
  for (int i = 0; i < 2000; ++i) {
    data.tokens.push_back("<unused" + std::to_string(i) + ">");
    data.token_types.push_back(static_cast<std::int32_t>(GgufTokenType::kControl));
  }
  auto vocabulary = MakeVocabulary(data);
  std::string text;
  std::vector<TokenId> expected;
  for (TokenId i = 0; i < 20'000; ++i) {
    TokenId token = kFirst + (i * 7) % 2000;
    text.append(*vocabulary->TokenText(token)).append("<");
    expected.push_back(token);
    expected.push_back('<');
  }
  EXPECT_EQ(TokensOf(*vocabulary, text, {.parse_special = true}), expected);
}

}  // namespace
}  // namespace kvd
