// Tokenizers without merges and scores: white space, longest match, and groups of bases of DNA.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/vocabulary/text_tokenizer.h"
#include "engine/vocabulary/token_table.h"
#include "engine/vocabulary/token_trie.h"

namespace kvd {

// BlankSeparated is the tokenizer of tokenizer.ggml.model "whitespace": white space only ends
// words, and each word is tokenized by another tokenizer, in lower case if the vocabulary says so.
class BlankSeparated final : public TextTokenizer {
 public:
  BlankSeparated(std::unique_ptr<const TextTokenizer> words, bool lowercase)
      : words_(std::move(words)), lowercase_(lowercase) {}

  Status Append(std::string_view text, bool at_start, std::vector<TokenId>& tokens,
                WorkControl& work) const override;

 private:
  const std::unique_ptr<const TextTokenizer> words_;
  const bool lowercase_;
};

// LongestMatch is the tokenizer of tokenizer.ggml.model "rwkv": at each place of the text, the
// longest token that begins there.
//
// Tokens are byte strings, which the vocabulary writes with the escapes of Python: \t, \n, \r,
// \xNN, and any other character after a backslash is itself. Every token takes part, whatever its
// type. If two tokens are the same bytes, the one with the higher id is used. A byte at which no
// token begins becomes the unknown token, or is dropped if the vocabulary has none.
class LongestMatch final : public TextTokenizer {
 public:
  // `unk`: the unknown token; kNoToken if the vocabulary has none. Errors: kCorrupt: a text with an
  // incomplete escape; as TokenTrie::Create.
  static Result<std::unique_ptr<LongestMatch>> Create(const TokenTable& tokens, TokenId unk);

  Status Append(std::string_view text, bool at_start, std::vector<TokenId>& tokens,
                WorkControl& work) const override;

 private:
  LongestMatch(TokenTrie trie, TokenId unk) : trie_(std::move(trie)), unk_(unk) {}

  const TokenTrie trie_;
  const TokenId unk_;
};

// The bytes that the text of a token with escapes stands for. Errors: kCorrupt: an incomplete
// escape.
Result<std::string> UnescapeBytes(std::string_view text);

// HybridDna is the tokenizer of tokenizer.ggml.model "hybriddna": another tokenizer, except for
// text between <dna> and </dna>, which is cut in groups of six bases.
//
// A group is written in capitals, and the last one is filled with "A". A group's token has the
// group's text with U+E000 after it, so that it differs from a token of ordinary text; the mark is
// not part of the token's piece. A group without a token becomes <oov>. If </dna> is missing, the
// sequence ends with the text. A vocabulary without <dna>, </dna> or <oov> has no groups.
class HybridDna final : public TextTokenizer {
 public:
  HybridDna(const TokenTable& tokens, std::unique_ptr<const TextTokenizer> words);

  Status Append(std::string_view text, bool at_start, std::vector<TokenId>& tokens,
                WorkControl& work) const override;

 private:
  Status AppendGroups(std::string_view bases, std::vector<TokenId>& tokens, WorkMeter& meter) const;

  const TokenTable& tokens_;
  const std::unique_ptr<const TextTokenizer> words_;
  const TokenId begin_;
  const TokenId end_;
  const TokenId unknown_group_;
};

// The text of a group's token without its mark; any other text is returned unchanged. Tokens of
// groups follow <oov>.
std::string_view WithoutGroupMark(const TokenTable& tokens, TokenId token);

}  // namespace kvd
