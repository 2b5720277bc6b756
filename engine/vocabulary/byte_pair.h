// BytePair is the tokenizer of tokenizer.ggml.model "gpt2": byte-level BPE. BytePair splits the
// text into words and merges the bytes of each word pair by pair, in the order of the vocabulary's
// merges.
//
// A byte that is not part of well-formed UTF-8 is treated as one U+FFFD when the text is split, but
// is tokenized as itself, so that a text can be restored from its tokens (llama.cpp tokenizes the
// U+FFFD instead). A byte for which the vocabulary has no token is dropped, as in llama.cpp: some
// published vocabularies (Falcon, StarCoder) lack bytes that do not occur in their training text.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/vocabulary/merge_rules.h"
#include "engine/vocabulary/pretokenizers.h"
#include "engine/vocabulary/text_tokenizer.h"
#include "engine/vocabulary/token_table.h"
#include "engine/vocabulary/word_splitter.h"

namespace kvd {

class BytePair final : public TextTokenizer {
 public:
  // Errors: as MergeRules::Create and WordSplitter::Create.
  static Result<std::unique_ptr<BytePair>> Create(const TokenTable& tokens,
                                                  std::span<const std::string> merges,
                                                  const Pretokenizer& pretokenizer);

  Status Append(std::string_view text, bool at_start, std::vector<TokenId>& tokens,
                WorkControl& work) const override;

 private:
  class Words;
  BytePair(const TokenTable& tokens, MergeRules rules, WordSplitter splitter, bool ignore_merges);

  const TokenTable& tokens_;
  MergeRules rules_;
  const WordSplitter splitter_;
  const bool ignore_merges_;
  std::array<std::int32_t, 256> byte_symbols_;
};

}  // namespace kvd
