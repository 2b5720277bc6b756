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
#include <unordered_map>
#include <vector>

#include "engine/vocabulary/pretokenizers.h"
#include "engine/vocabulary/text_tokenizer.h"
#include "engine/vocabulary/token_table.h"
#include "engine/vocabulary/word_splitter.h"

namespace kvd {

// MergeRule: the result of merging two neighbouring symbols. A symbol represents a text. The number
// of a symbol is the id of the token with the symbol's text, or a number above all token ids if
// there is no such token.
struct MergeRule {
  std::int32_t rank = -1;  // lower ranks merge first; -1: the two symbols do not merge
  std::int32_t merged = -1;
};

// MergeTable maps a pair (left, right) of symbols to its merge rule, in an open-addressed hash
// table.
class MergeTable {
 public:
  explicit MergeTable(std::size_t rule_count_max);
  // Keeps the existing rule if the pair has one. REQUIRES: fewer than `rule_count_max` pairs have
  // been added.
  void Add(std::int32_t left, std::int32_t right, MergeRule rule);
  MergeRule Find(std::int32_t left, std::int32_t right) const;

 private:
  struct Slot {
    std::uint64_t pair = kEmpty;
    MergeRule rule;
  };
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  std::size_t SlotOf(std::uint64_t pair) const;

  std::vector<Slot> slots_;
  int shift_;
};

class BytePair final : public TextTokenizer {
 public:
  static constexpr std::size_t kMergeCountMax = 1u << 23;

  // Errors: kCorrupt: no merges, more than kMergeCountMax, or a merge that is not "LEFT RIGHT";
  // kInternal: as WordSplitter::Create.
  static Result<std::unique_ptr<BytePair>> Create(const TokenTable& tokens,
                                                  std::span<const std::string> merges,
                                                  const Pretokenizer& pretokenizer);

  Status Append(std::string_view text, bool at_start, std::vector<TokenId>& tokens,
                WorkControl& work) const override;

 private:
  class WordMerger;
  BytePair(const TokenTable& tokens, WordSplitter splitter, bool ignore_merges,
           std::size_t merge_count);

  Status AddMerges(std::span<const std::string> merges);
  std::int32_t SymbolOf(std::string_view text);
  void AppendSymbol(std::int32_t symbol, std::vector<TokenId>& tokens) const;

  const TokenTable& tokens_;
  const WordSplitter splitter_;
  const bool ignore_merges_;
  MergeTable merges_;
  std::unordered_map<std::string, std::int32_t> extra_symbols_;  // texts that are not tokens
  // [i]: the tokens as which extra symbol i is written.
  std::vector<std::vector<TokenId>> extra_tokens_;
  std::array<std::int32_t, 256> byte_symbols_;
};

}  // namespace kvd
