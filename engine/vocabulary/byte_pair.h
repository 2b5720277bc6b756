// The tokenizer of tokenizer.ggml.model "gpt2": byte-level BPE. Text is split into words, and the
// bytes of a word are merged pair by pair, in the order of the vocabulary's list of merges.
//
// Bytes that are not well-formed UTF-8 are split like U+FFFD, one for each byte, and tokenized as
// the bytes that they are, so a text comes back from its tokens (llama.cpp tokenizes the U+FFFD
// instead). A byte for which the vocabulary has no token is left out, as in llama.cpp: some
// published vocabularies (Falcon, StarCoder) lack bytes that their training text did not have.
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

// What two neighbouring symbols become. A symbol is a text: the token of that text where there is
// one, else a number beyond the tokens.
struct MergeRule {
  std::int32_t rank = -1;  // lower first; -1: the two do not merge
  std::int32_t merged = -1;
};

// (left, right) -> rule, an open-addressed table.
class MergeTable {
 public:
  explicit MergeTable(std::size_t rule_count_max);
  // Keeps the rule that was there first. REQUIRES: fewer than `rule_count_max` pairs so far.
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

  // kCorrupt: no merges, too many, or one that is not "LEFT RIGHT". kInternal as
  // WordSplitter::Create.
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
  std::unordered_map<std::string, std::int32_t> extra_symbols_;  // texts that are no tokens
  std::vector<std::vector<TokenId>> extra_tokens_;  // what extra symbol i is written as
  std::array<std::int32_t, 256> byte_symbols_;
};

}  // namespace kvd
