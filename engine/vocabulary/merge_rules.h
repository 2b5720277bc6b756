// MergeRules holds the merges of a vocabulary (tokenizer.ggml.merges): which two neighbouring
// symbols become one, and in which order.
//
// A symbol is a text: a token, or a text of a merge that is no token. The number of a symbol is the
// id of the token with its text, or a number above all token ids. MergeRules is created with the
// tokenizer that uses it, then immutable, and may be used from any thread. It refers to the
// vocabulary's `TokenTable`, which must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "engine/vocabulary/pair_table.h"
#include "engine/vocabulary/text_index.h"
#include "engine/vocabulary/token_table.h"

namespace kvd {

struct MergeRule {
  std::int32_t rank = -1;  // lower ranks merge first; -1: the two symbols do not merge
  std::int32_t merged = -1;
};

class MergeRules {
 public:
  static constexpr std::size_t kMergeCountMax = 1u << 23;
  static constexpr std::int32_t kNoSymbol = -1;

  // `byte_tokens`: the tokens that stand for the bytes of a text that is no token; a byte without
  // one is dropped, as in llama.cpp. Errors: kCorrupt: more than kMergeCountMax merges, or a merge
  // that is not "LEFT RIGHT".
  static Result<MergeRules> Create(const TokenTable& tokens, std::span<const std::string> merges,
                                   const ByteTokens& byte_tokens);

  // The symbol with this text; kNoSymbol: the text is neither a token nor part of a merge.
  std::int32_t SymbolOf(std::string_view text) const;
  // As SymbolOf, and adds the symbol if there is none.
  std::int32_t AddSymbol(std::string_view text);

  MergeRule Find(std::int32_t left, std::int32_t right) const { return rules_.Find(left, right); }

  // Appends the token of a symbol, or the tokens of the bytes of its text.
  void AppendSymbol(std::int32_t symbol, std::vector<TokenId>& tokens) const;
  // Appends the tokens of the bytes of `text`.
  void AppendBytes(std::string_view text, std::vector<TokenId>& tokens) const;

 private:
  // The merges that are read at once, each with two texts and their sum.
  static constexpr std::size_t kPartSize = TextIndex::kFindManyMax / 3;

  // Adds the merges of a part; the first one has the rank `first_rank`.
  Status AddPart(std::span<const std::string> merges, std::size_t first_rank);

  MergeRules(const TokenTable& tokens, const ByteTokens& byte_tokens, std::size_t merge_count)
      : tokens_(tokens), byte_tokens_(byte_tokens), rules_(merge_count) {}

  const TokenTable& tokens_;
  ByteTokens byte_tokens_;
  PairTable<MergeRule> rules_;
  std::unordered_map<std::string, std::int32_t> extra_symbols_;  // texts that are not tokens
  // [i]: the tokens as which extra symbol i is written.
  std::vector<std::vector<TokenId>> extra_tokens_;
};

}  // namespace kvd
