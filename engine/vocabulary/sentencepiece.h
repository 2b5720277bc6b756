// SentencePiece is the tokenizer of tokenizer.ggml.model "llama": SentencePiece's BPE.
// SentencePiece merges neighbouring characters into tokens, highest score first. A character that
// is not a token becomes its bytes (tokens "<0x00>" to "<0xFF>").
//
// A space is written as U+2581. With `add_space_prefix`, a space is put before the text if it
// begins the prompt or follows a special token. A byte without a token becomes the unknown token,
// or is dropped if the vocabulary has none.
#pragma once

#include <string_view>
#include <vector>

#include "engine/vocabulary/escaped_spaces.h"
#include "engine/vocabulary/text_tokenizer.h"
#include "engine/vocabulary/token_table.h"

namespace kvd {

class SentencePiece final : public TextTokenizer {
 public:
  // `unk`: the unknown token; kNoToken if the vocabulary has none.
  SentencePiece(const TokenTable& tokens, bool add_space_prefix, TokenId unk);

  Status Append(std::string_view text, bool at_start, std::vector<TokenId>& tokens,
                WorkControl& work) const override;

 private:
  const TokenTable& tokens_;
  const bool add_space_prefix_;
  ByteTokens byte_tokens_;
  SpaceBoundaries boundaries_;
};

}  // namespace kvd
