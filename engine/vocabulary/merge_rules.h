// MergeRules holds the merges of a vocabulary (tokenizer.ggml.merges): which two neighbouring
// symbols become one, and in which order.
//
// A symbol is a text: a token, or a text of a merge that is no token. The number of a symbol is the
// id of the token with its text, or a number above all token ids. MergeRules is created with the
// tokenizer that uses it, then immutable, and may be used from any thread. It refers to the
// vocabulary's `TokenTable`, which must outlive it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "engine/vocabulary/text_index.h"
#include "engine/vocabulary/token_table.h"

namespace kvd {

// PairTable maps pairs of 32-bit numbers to values, in an open-addressed hash table of fixed size.
//
// The table is at most half full, so that searches are short. Several threads may search a table
// that does not change.

// A default Value means that a pair has none.
template <class Value>
class PairTable {
 public:
  explicit PairTable(std::size_t pair_count_max)
      : slots_(std::bit_ceil(2 * pair_count_max + 2)),
        shift_(64 - std::countr_zero(slots_.size())) {}

  // Keeps the existing value if the pair has one. REQUIRES: fewer than `pair_count_max` pairs have
  // been added; `left` and `right` are not both -1.
  void Add(std::int32_t left, std::int32_t right, Value value) {
    const std::uint64_t pair = PairOf(left, right);
    Slot& slot = slots_[SlotOf(pair)];
    if (slot.pair == kEmpty) slot = {pair, value};
  }

  // Brings the place of the pair into the cache: a following Add or Find waits less.
  void Prefetch(std::int32_t left, std::int32_t right) const {
    __builtin_prefetch(&slots_[FirstSlotOf(PairOf(left, right))]);
  }

  Value Find(std::int32_t left, std::int32_t right) const {
    return slots_[SlotOf(PairOf(left, right))].value;
  }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t pair = kEmpty;
    Value value;
  };

  static std::uint64_t PairOf(std::int32_t left, std::int32_t right) {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) |
           static_cast<std::uint32_t>(right);
  }
  std::size_t FirstSlotOf(std::uint64_t pair) const {
    return (pair * 0x9e3779b97f4a7c15u) >> shift_;
  }
  std::size_t SlotOf(std::uint64_t pair) const {
    std::size_t slot = FirstSlotOf(pair);
    while (slots_[slot].pair != pair && slots_[slot].pair != kEmpty)
      slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  }

  std::vector<Slot> slots_;
  int shift_;
};

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
