// AllowedTokens: the tokens that a sampler may draw, as a view of a set that the caller owns (a
// TokenMask, for example).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"

namespace kvd {

// Either a list or bits; the other one is empty. Both empty: no token is allowed. REQUIRES: every
// token is in the sampler's vocabulary; the list is ascending; `bits` has [(vocabulary + 63) / 64]
// words.
struct AllowedTokens {
  std::span<const TokenId> list;
  std::span<const std::uint64_t> bits;  // bit t % 64 of word t / 64: token t is allowed

  bool IsList() const { return bits.empty(); }
  // REQUIRES: the token is in the sampler's vocabulary.
  bool Has(TokenId token) const {
    if (IsList()) return std::ranges::binary_search(list, token);
    const auto place = static_cast<std::size_t>(token);
    return (bits[place / 64] >> place % 64 & 1) != 0;
  }
};

}  // namespace kvd
