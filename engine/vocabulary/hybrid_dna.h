// HybridDna is the tokenizer of tokenizer.ggml.model "hybriddna": another tokenizer, except for
// text between <dna> and </dna>, which is cut in groups of six bases.
//
// A group is written in capitals, and the last one is filled with "A". A group's token has the
// group's text with U+E000 after it, so that it differs from a token of ordinary text; the mark is
// not part of the token's piece. A group without a token becomes <oov>. If </dna> is missing, the
// sequence ends with the text. A vocabulary without <dna>, </dna> or <oov> has no groups.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/vocabulary/text_tokenizer.h"
#include "engine/vocabulary/token_table.h"

namespace kvd {

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
