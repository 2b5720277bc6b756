// WordMerger merges the symbols of one word after another by a vocabulary's merges. It is the
// scratch memory of one call of a tokenizer, whose buffers are reused from word to word.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/work_control.h"
#include "engine/vocabulary/merge_rules.h"

namespace kvd {

// MergeChain is the linked list of neighbouring symbols that both merging tokenizers
// (SentencePiece, BytePair) shrink pair by pair. A chain is used during one call of a tokenizer.
struct ChainSymbol {
  std::int32_t previous = -1;  // index of the nearest unmerged neighbour; -1 at the ends
  std::int32_t next = -1;
  std::uint32_t begin = 0;  // offset in the text
  std::uint32_t bytes = 0;  // 0: merged into its left neighbour
  std::int32_t id = -1;     // the tokenizer's number of the symbol
};

class MergeChain {
 public:
  void Clear() { symbols_.clear(); }

  void Append(std::uint32_t begin, std::uint32_t bytes, std::int32_t id) {
    auto index = static_cast<std::int32_t>(symbols_.size());
    if (index > 0) symbols_.back().next = index;
    symbols_.push_back({index - 1, -1, begin, bytes, id});
  }

  std::int32_t symbol_count() const { return static_cast<std::int32_t>(symbols_.size()); }
  ChainSymbol& operator[](std::int32_t index) { return symbols_[static_cast<std::size_t>(index)]; }

  // REQUIRES: right == (*this)[left].next.
  void MergeIntoLeft(std::int32_t left, std::int32_t right, std::int32_t merged_id) {
    ChainSymbol& kept = (*this)[left];
    ChainSymbol& gone = (*this)[right];
    kept.bytes += gone.bytes;
    kept.id = merged_id;
    kept.next = gone.next;
    gone.bytes = 0;
    if (gone.next >= 0) (*this)[gone.next].previous = left;
  }

 private:
  std::vector<ChainSymbol> symbols_;
};

// WordMemo remembers the tokens of the words of one text, so that a word that comes again is not
// merged again. In prose, most words do.
//
// A WordMemo is used during one call of a tokenizer. A word has one place, by its hash, and
// replaces the word that was there, so the memory is bounded and a look-up takes one step. The memo
// holds views of the text and indexes of the tokens, which must stay as they are meanwhile.
class WordMemo {
 public:
  // `text_bytes`: the length of the text, which decides the number of places.
  explicit WordMemo(std::size_t text_bytes)
      : places_(std::bit_ceil(std::clamp(text_bytes / 16, std::size_t{16}, kPlaceCountMax))),
        shift_(64 - std::countr_zero(places_.size())) {}

  // Words that are not remembered: they are tokens already, or rarely come again.
  static bool Skips(std::string_view word) { return word.size() < 2 || word.size() > 32; }

  // Appends the tokens of `word` if they are remembered, and returns whether they are. REQUIRES:
  // !Skips(word).
  bool Append(std::string_view word, std::vector<TokenId>& tokens) const {
    const Place& place = places_[PlaceOf(word)];
    if (place.word != word) return false;
    for (std::size_t i = 0; i < place.count; ++i) {
      const TokenId token = tokens[place.first + i];
      tokens.push_back(token);
    }
    return true;
  }

  // Remembers that the tokens from `first` on are those of `word`. REQUIRES: !Skips(word).
  void Remember(std::string_view word, std::size_t first, const std::vector<TokenId>& tokens) {
    places_[PlaceOf(word)] = {word, first, tokens.size() - first};
  }

 private:
  static constexpr std::size_t kPlaceCountMax = 4096;
  struct Place {
    std::string_view word;
    std::size_t first = 0;
    std::size_t count = 0;
  };

  // Mixes the first and the last eight bytes and the length, which distinguish most words.
  std::size_t PlaceOf(std::string_view word) const {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    const std::size_t bytes = std::min(word.size(), sizeof first);
    std::memcpy(&first, word.data(), bytes);
    std::memcpy(&last, word.data() + word.size() - bytes, bytes);
    const std::uint64_t mixed =
        (first ^ word.size()) * 0x9e3779b97f4a7c15u ^ last * 0xc2b2ae3d27d4eb4fu;
    return ((mixed ^ (mixed >> 29)) * 0x9e3779b97f4a7c15u) >> shift_;
  }

  std::vector<Place> places_;
  int shift_;
};

class WordMerger {
 public:
  // `rules` and `meter` must outlive the object.
  WordMerger(const MergeRules& rules, WorkMeter& meter) : rules_(rules), meter_(meter) {}

  // The symbols of the word: the caller fills the chain, calls Merge, and reads what is left of it.
  MergeChain& chain() { return chain_; }

  // Errors: kCancelled.
  Status Merge();

 private:
  struct Candidate {
    std::int32_t rank;
    std::int32_t left;
    std::int32_t right;
    std::int32_t left_symbol;
    std::int32_t right_symbol;
    std::int32_t merged;
  };
  static constexpr std::size_t kCandidateUnits = 16;

  static bool IsLater(const Candidate& a, const Candidate& b);
  void MergeNext();
  void Consider(std::int32_t left, std::int32_t right);

  const MergeRules& rules_;
  WorkMeter& meter_;
  MergeChain chain_;
  std::vector<Candidate> candidates_;
};

}  // namespace kvd
