// Helpers of the grammar's tests: vocabularies with given texts, and grammars that must compile.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/grammar.h"
#include "engine/grammar/grammar_vocabulary.h"
#include "engine/vocabulary/vocabulary.h"

namespace kvd::test {

// A byte-level vocabulary: tokens 0 to 255 are the bytes, then `texts`, then the control tokens
// "<think>", "</think>" and "<eos>", which ends the generation.
std::unique_ptr<Vocabulary> ByteVocabulary(const std::vector<std::string>& texts);
inline TokenId ThinkToken(const GrammarVocabulary& v) {
  return static_cast<TokenId>(v.vocab_size()) - 3;
}
inline TokenId EndToken(const GrammarVocabulary& v) {
  return static_cast<TokenId>(v.vocab_size()) - 1;
}
std::shared_ptr<const GrammarVocabulary> GrammarVocabularyOf(const std::vector<std::string>& texts);

// The grammar, which has to compile; a failure ends the test.
std::shared_ptr<Grammar> Compile(std::string_view gbnf, const std::vector<std::string>& texts = {},
                                 const GrammarLimits& limits = {});
// The message of a grammar that must be refused; with `code` if it is not kOk.
std::string CompileError(std::string_view gbnf, Code code = Code::kInvalidArgument,
                         const GrammarLimits& limits = {});
// Whether the text is a sentence of the grammar.
bool Matches(const std::shared_ptr<Grammar>& grammar, std::string_view text);
// Whether the text can be continued to a sentence.
bool IsPrefix(const std::shared_ptr<Grammar>& grammar, std::string_view text);
// The tokens of a mask in ascending order.
std::vector<TokenId> TokensOf(const TokenMask& mask);
// The texts of the tokens of the mask, "END" for an end-of-generation token, sorted.
std::vector<std::string> MaskTexts(const GrammarMatcher& matcher);

}  // namespace kvd::test
