// LongestMatch is the tokenizer of tokenizer.ggml.model "rwkv": at each place of the text, the
// longest token that begins there.
//
// Tokens are byte strings, which the vocabulary writes with the escapes of Python: \t, \n, \r,
// \xNN, and any other character after a backslash is itself. Every token takes part, whatever its
// type. If two tokens are the same bytes, the one with the higher id is used. A byte at which no
// token begins becomes the unknown token, or is dropped if the vocabulary has none.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/vocabulary/text_tokenizer.h"
#include "engine/vocabulary/token_table.h"
#include "engine/vocabulary/token_trie.h"

namespace kvd {

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

}  // namespace kvd
