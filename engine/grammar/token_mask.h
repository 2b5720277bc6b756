// TokenMask: the set of tokens that may follow one state of a grammar.
//
// A set of few tokens is a sorted list, a larger one has a bit for each token of a row of logits.
// Immutable; shared by the matchers and threads that need it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace kvd {

class TokenMask {
 public:
  // A set of at most row_size / kListShare tokens is a list.
  static constexpr std::uint32_t kListShare = 64;

  // `bits`: bit t % 64 of word t / 64 is set if the set has token t; [(row_size + 63) / 64].
  // `is_complete`: the set has all tokens that may follow.
  TokenMask(std::uint32_t row_size, std::vector<std::uint64_t> bits, bool is_complete);

  // Every token is below row_size().
  std::uint32_t row_size() const { return row_size_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // False if GrammarLimits::mask_entries or the depth ended the search early. The tokens of the set
  // are allowed even so.
  bool is_complete() const { return is_complete_; }
  bool Contains(TokenId token) const {
    if (token < 0 || static_cast<std::uint32_t>(token) >= row_size_) return false;
    if (is_list()) return std::ranges::binary_search(list_, token);
    const auto bit = static_cast<std::size_t>(token);
    return (bits_[bit / 64] >> (bit % 64) & 1) != 0;
  }

  bool is_list() const { return bits_.empty(); }
  // The tokens in ascending order if is_list(), else empty.
  std::span<const TokenId> list() const { return list_; }
  // The bits (see above) if not is_list(), else empty.
  std::span<const std::uint64_t> bits() const { return bits_; }
  std::size_t held_bytes() const {
    return sizeof(*this) + list_.capacity() * sizeof(TokenId) +
           bits_.capacity() * sizeof(std::uint64_t);
  }

 private:
  std::uint32_t row_size_;
  std::size_t size_ = 0;
  bool is_complete_;
  std::vector<TokenId> list_;
  std::vector<std::uint64_t> bits_;
};

}  // namespace kvd
