// The tokenizer of tokenizer.ggml.model "llama": SentencePiece's BPE. Neighbouring characters are
// merged into tokens, best score first; a character that is no token becomes its bytes (tokens
// "<0x00>" to "<0xFF>").
//
// A space is written U+2581, and one is put before a text that stands at the start
// (`add_space_prefix`). A byte that has no token of its own becomes the unknown token, or nothing
// where the vocabulary has none.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "engine/vocabulary/text_tokenizer.h"
#include "engine/vocabulary/token_table.h"

namespace kvd {

class SentencePiece final : public TextTokenizer {
 public:
  // `unk`: kNoToken where there is none.
  SentencePiece(const TokenTable& tokens, bool add_space_prefix, TokenId unk);

  Status Append(std::string_view text, bool at_start, std::vector<TokenId>& tokens,
                WorkControl& work) const override;

 private:
  const TokenTable& tokens_;
  const bool add_space_prefix_;
  std::array<TokenId, 256> byte_tokens_;
};

// U+2581, how a space is written in the vocabulary.
inline constexpr std::string_view kEscapedSpace = "\xe2\x96\x81";

// Every U+2581 of a token's text as a space.
std::string UnescapeSpaces(std::string_view text);

}  // namespace kvd
