// WordPiece is the tokenizer of tokenizer.ggml.model "bert". WordPiece normalises the text, splits
// it into words, and covers each word with tokens from left to right, each time by the longest
// token that matches.
//
// The vocabulary writes U+2581 before tokens that begin a word. A word that tokens do not cover to
// its end becomes one unknown token. Normalisation drops control characters, U+0000, U+FFFD and
// bytes that are not part of a character; white space separates words; a punctuation mark, an ASCII
// symbol or a Chinese character is a word by itself; the options select lower case and removal of
// accents. As in llama.cpp, only the first part of a decomposed character is kept: a Hangul
// syllable becomes its leading consonant.
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
  // `unk`: the unknown token; kNoToken: the vocabulary has none, and uncovered words are dropped.
  // Errors: as TokenTrie::Create.
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

// Removes the spaces that precede a word's first token but do not belong to the text: before ? ! .
// and , before 's 'm 're and 've, and around a lone apostrophe, as llama.cpp's clean-up does.
std::string CleanUpSpaces(std::string_view text);

}  // namespace kvd
