// The four kinds of tokenizer, each implemented directly from its definition. Texts of control
// tokens in the input are treated like all other text, and no control tokens are added to the
// result.
//
// Pure functions. The tokenizers throw std::runtime_error for input that the tests do not need.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "engine/vocabulary/vocabulary_data.h"

namespace kvd::reference {

using Tokens = std::vector<TokenId>;

struct Lexicon {
  explicit Lexicon(VocabularyData from);

  // Returns the token with this text; -1: there is none.
  TokenId Find(const std::string& token_text) const;
  bool IsOfType(TokenId token, GgufTokenType type) const;

  VocabularyData data;
  std::map<std::string, TokenId> ids;
};

// "gpt2": splits the text into words (Gpt2Words). In each word, the neighbouring tokens whose pair
// comes first in the list of merges are merged, until no pair is in the list (Sennrich et al. 2016;
// bytes: Radford et al. 2019).
Tokens BytePairTokens(const Lexicon& lexicon, std::string_view text);
// Returns the words into which the regular expression of GPT-2 splits the text.
std::vector<std::string> Gpt2Words(std::string_view text);
// Returns the character that stands for the byte in the token texts of "gpt2" vocabularies.
std::string ByteCharacterOf(unsigned char byte);

// "llama": neighbours whose joined text is a token are merged, those with the best score first.
// Characters that are not tokens become byte tokens (Kudo and Richardson 2018).
Tokens SentencePieceTokens(const Lexicon& lexicon, std::string_view text);

// "t5": of all ways to divide the text into tokens, returns the one with the greatest sum of scores
// (Kudo 2018).
Tokens UnigramTokens(const Lexicon& lexicon, std::string_view text);
// Returns the words of the text, each preceded by U+2581 instead of spaces.
std::string UnigramNormalized(std::string_view text);

// "bert": takes the longest token at the start of each word, and repeats this with the rest of the
// word (Devlin et al. 2019).
Tokens WordPieceTokens(const Lexicon& lexicon, std::string_view text);
// Returns the words in lower case and without accents. Each punctuation mark and each Chinese
// character is a separate word.
std::vector<std::string> BertWords(std::string_view text);

// Divides the text at the user-defined tokens that it contains, and tokenizes the parts with the
// tokenizer named by lexicon.data.model. REQUIRES: the texts of user-defined tokens do not overlap,
// and the tokenizer adds no space before a text.
Tokens Tokenize(const Lexicon& lexicon, std::string_view text);

}  // namespace kvd::reference
