// Rows of weights as bf16, for products with tiles. A source of rows has two static functions:
//   RowBytes(n)  returns the bytes of n elements of a row
//   Write(from, n, left, to)  writes the first n elements at `from` as bf16 to `to`, in vectors of
//                             32 elements; `to` is 64-byte aligned. `left` elements of the row are
//                             left; zeros follow the last one
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/avx512bf16/pairs.h"
#include "kernels/lanes/dispatch.h"

namespace kvd::kernels::amx {

// Weights of f16 and bf16. Pairs is PairsOfBf16 or PairsOfF16.
template <class Pairs>
struct HalfRows {
  static KVD_ALWAYS_INLINE std::size_t RowBytes(std::size_t n) { return 2 * n; }
  static KVD_ALWAYS_INLINE void Write(const std::uint8_t* from, std::size_t n, std::size_t left,
                                      std::uint8_t* to) {
    for (std::size_t j = 0; j < n; j += 32, to += 64) {
      _mm512_store_si512(to, Pairs::Load(from + 2 * j, left - j));
    }
  }
};

// Weights of a quantised type. D is the decoder of kernels/avx512/decoders.h. n must be a multiple
// of D::kElements.
template <class D>
struct DecodedRows {
  static KVD_ALWAYS_INLINE std::size_t RowBytes(std::size_t n) { return DecoderRowBytes<D>(n); }
  static KVD_ALWAYS_INLINE void Write(const std::uint8_t* from, std::size_t n, std::size_t,
                                      std::uint8_t* to) {
    for (std::size_t j = 0; j < n; j += D::kElements, from += D::kBytes) {
      const typename D::State state = D::Open(from);
      StaticFor<D::kElements / 32>([&](auto pair) KVD_INLINE_LAMBDA {
        avx512::V low, high;
        D::template Pair<pair.value>(state, &low, &high);
        _mm512_store_si512(to, avx512bf16::Round::Of(low, high));
        to += 64;
      });
    }
  }
};

}  // namespace kvd::kernels::amx
