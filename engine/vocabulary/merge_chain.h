// MergeChain is the linked list of neighbouring symbols that both merging tokenizers
// (SentencePiece, BytePair) shrink pair by pair. A chain is used during one call of a tokenizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvd {

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

}  // namespace kvd
