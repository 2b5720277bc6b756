#include "engine/grammar/token_mask.h"

#include <bit>

namespace kvd {

TokenMask::TokenMask(std::uint32_t row_size, std::vector<std::uint64_t> bits, bool is_complete)
    : row_size_(row_size), is_complete_(is_complete) {
  for (const std::uint64_t word : bits) size_ += static_cast<std::size_t>(std::popcount(word));
  if (size_ > row_size / kListShare) {
    bits_ = std::move(bits);
    return;
  }
  list_.reserve(size_);
  for (std::size_t i = 0; i < bits.size(); ++i)
    for (std::uint64_t word = bits[i]; word != 0; word &= word - 1)
      list_.push_back(
          static_cast<TokenId>(i * 64 + static_cast<std::size_t>(std::countr_zero(word))));
}

}  // namespace kvd
