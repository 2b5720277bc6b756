// The first two bytes of an input of tokenizer_fuzz; what follows is the text, or tokens as i16.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvd::test {

inline constexpr std::size_t kTokenizerHeaderBytes = 2;  // number of the vocabulary, bits

enum TokenizerBits : std::uint8_t {
  kAddSpecial = 1u << 0,
  kParseSpecial = 1u << 1,
  kTokensGiven = 1u << 2,
  kRemoveSpecial = 1u << 3,
  kUnparseSpecial = 1u << 4,
};

}  // namespace kvd::test
