// The first two bytes of an input of tokenizer_fuzz. A text, or tokens as 16-bit integers, follow.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvd::test {

inline constexpr std::size_t kTokenizerHeaderBytes = 2;  // index of the vocabulary, TokenizerBits

enum TokenizerBits : std::uint8_t {
  kAddSpecial = 1u << 0,
  kParseSpecial = 1u << 1,
  kTokensGiven = 1u << 2,
  kRemoveSpecial = 1u << 3,
  kUnparseSpecial = 1u << 4,
};

}  // namespace kvd::test
