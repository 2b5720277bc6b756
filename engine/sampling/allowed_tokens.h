// AllowedTokens: a view of the tokens that a draw may choose; all other tokens are excluded before
// biases, penalties and the chain.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"

namespace kvd {

struct AllowedTokens {
  // If `bits` is empty: the tokens in ascending order, each below the vocabulary's size.
  std::span<const TokenId> list;
  // If not empty: bit t % 64 of word t / 64 is set if token t is allowed, [(vocab_size + 63) / 64].
  std::span<const std::uint64_t> bits;
};

}  // namespace kvd
