// The tokenizer of tokenizer.ggml.model "bert": WordPiece. Text is normalised and split into words,
// and a word is covered by the longest token at its start, the longest after that, and so on.
//
// The vocabulary writes U+2581 before the tokens that begin a word. A word that tokens do not cover
// to its end becomes one unknown token. Normalised means: control characters, U+0000, U+FFFD and
// bytes that are no characters are dropped, white space separates words, and a punctuation mark, an
// ASCII symbol or a Chinese character is a word of its own; as asked for, letters become lower case
// and lose their accents. Like llama.cpp, of a character that decomposes only the first part stays:
// of a Hangul syllable, its leading consonant.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/vocabulary/text_tokenizer.h"
#include "engine/vocabulary/token_table.h"
#include "engine/vocabulary/token_trie.h"

namespace kvd {

struct WordPieceOptions {
  bool lowercase = true;
  bool strip_accents = true;
};

class WordPiece final : public TextTokenizer {
 public:
  // `unk`: kNoToken where there is none; words are left out then. Errors as TokenTrie::Create.
  static Result<std::unique_ptr<WordPiece>> Create(const TokenTable& tokens, TokenId unk,
                                                   WordPieceOptions options);

  Status Append(std::string_view text, bool at_start, std::vector<TokenId>& tokens,
                WorkControl& work) const override;

 private:
  WordPiece(TokenTrie trie, TokenId unk, WordPieceOptions options)
      : trie_(std::move(trie)), unk_(unk), options_(options) {}

  // `word` begins with U+2581.
  Status AppendWord(std::string_view word, std::vector<TokenId>& tokens, WorkMeter& meter) const;

  const TokenTrie trie_;
  const TokenId unk_;
  const WordPieceOptions options_;
};

// Takes out the spaces that stand before each word's first token but not in text: before ?!., and
// 's 'm 're 've, and around a lone apostrophe, as llama.cpp cleans up.
std::string CleanUpSpaces(std::string_view text);

}  // namespace kvd
