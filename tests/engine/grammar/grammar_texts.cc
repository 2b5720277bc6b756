#include "tests/engine/grammar/grammar_texts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "engine/vocabulary/byte_pair.h"

namespace kvd::test {
namespace {

std::string ToByteAlphabet(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += ByteCharacter(static_cast<std::uint8_t>(byte));
  return text;
}

}  // namespace

std::unique_ptr<Vocabulary> ByteVocabulary(const std::vector<std::string>& texts) {
  VocabularyData data;
  data.model = "gpt2";
  data.pre = "gpt-2";
  const auto add = [&](std::string text, GgufTokenType type) {
    data.tokens.push_back(std::move(text));
    data.token_types.push_back(static_cast<std::int32_t>(type));
  };
  for (int byte = 0; byte < 256; ++byte)
    add(ToByteAlphabet(std::string(1, static_cast<char>(byte))), GgufTokenType::kNormal);
  for (const std::string& text : texts) add(ToByteAlphabet(text), GgufTokenType::kNormal);
  for (const char* name : {"<think>", "</think>", "<eos>"}) add(name, GgufTokenType::kControl);
  data.merges = {"a b"};
  data.eos = static_cast<std::uint32_t>(data.tokens.size() - 1);
  auto made = Vocabulary::Create(std::move(data));
  if (!made) {
    ADD_FAILURE() << made.error().message;
    std::abort();
  }
  return std::move(*made);
}

std::shared_ptr<const GrammarVocabulary> GrammarVocabularyOf(
    const std::vector<std::string>& texts) {
  const auto vocabulary = ByteVocabulary(texts);
  auto made = GrammarVocabulary::Create(*vocabulary, vocabulary->vocab_size() + 5);
  if (!made) {
    ADD_FAILURE() << made.error().message;
    std::abort();
  }
  return *made;
}

std::shared_ptr<Grammar> Compile(std::string_view gbnf, const std::vector<std::string>& texts,
                                 const GrammarLimits& limits) {
  auto grammar = Grammar::Compile(gbnf, GrammarVocabularyOf(texts), limits);
  if (!grammar) {
    ADD_FAILURE() << grammar.error().message << "\n" << gbnf;
    std::abort();
  }
  return *grammar;
}

std::string CompileError(std::string_view gbnf, Code code, const GrammarLimits& limits) {
  const auto grammar = Grammar::Compile(gbnf, GrammarVocabularyOf({}), limits);
  if (grammar) {
    ADD_FAILURE() << "is accepted: " << gbnf;
    return "";
  }
  EXPECT_EQ(grammar.error().code, code) << gbnf;
  return grammar.error().message;
}

bool IsPrefix(const std::shared_ptr<Grammar>& grammar, std::string_view text) {
  return GrammarMatcher(grammar).AcceptText(text).has_value();
}

bool Matches(const std::shared_ptr<Grammar>& grammar, std::string_view text) {
  GrammarMatcher matcher(grammar);
  return matcher.AcceptText(text).has_value() && matcher.may_end();
}

std::vector<TokenId> TokensOf(const TokenMask& mask) {
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < static_cast<TokenId>(mask.row_size()); ++token)
    if (mask.Contains(token)) tokens.push_back(token);
  EXPECT_EQ(tokens.size(), mask.size());
  return tokens;
}

std::vector<std::string> MaskTexts(const GrammarMatcher& matcher) {
  const GrammarVocabulary& vocabulary = matcher.grammar()->vocabulary();
  std::vector<std::string> texts;
  for (const TokenId token : TokensOf(*matcher.Mask())) {
    if (vocabulary.IsEndOfGeneration(token)) {
      texts.emplace_back("END");
    } else {
      texts.emplace_back(vocabulary.Text(token));
    }
  }
  std::ranges::sort(texts);
  return texts;
}

}  // namespace kvd::test
