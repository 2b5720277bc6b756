// The scales of four blocks of each of four weight rows, in registers of 128 bits, for every
// instruction set.
#pragma once

#include <immintrin.h>

#include "kernels/lanes/quant_rows.h"
#include "kernels/quant_blocks.h"

namespace kvd::kernels {

// Lanes: those of the instruction set, to name it.
template <class Lanes>
struct QuadFields {
  static KVD_ALWAYS_INLINE std::uint64_t Half(const std::uint8_t* from) {
    std::uint16_t half = 0;
    __builtin_memcpy(&half, from, sizeof half);
    return half;
  }
  // Those of four rows, the first lowest.
  static KVD_ALWAYS_INLINE long long FourHalves(const WeightRows& rows, std::size_t at) {
    return static_cast<long long>(Half(rows.at[0] + at) | Half(rows.at[1] + at) << 16 |
                                  Half(rows.at[2] + at) << 32 | Half(rows.at[3] + at) << 48);
  }
  static KVD_ALWAYS_INLINE __m128 HalfOfEach(const WeightRows& rows, std::size_t at) {
    return _mm_cvtph_ps(_mm_cvtsi64_si128(FourHalves(rows, at)));
  }
  // The words at `at` of four rows.
  static KVD_ALWAYS_INLINE __m128i Words(const WeightRows& rows, std::size_t at) {
    const auto word = [&](int o) KVD_INLINE_LAMBDA {
      int value = 0;
      __builtin_memcpy(&value, rows.at[o] + at, sizeof value);
      return value;
    };
    return _mm_setr_epi32(word(0), word(1), word(2), word(3));
  }
  // Bytes [row][block] to [block][row].
  static KVD_ALWAYS_INLINE __m128i Transposed(__m128i bytes) {
    return _mm_shuffle_epi8(bytes,
                            _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  }

  // Of a q4_K or q5_K block of each row.
  struct Parts {
    __m128i scales[2];    // 6 bits each, [row][part % 4], for parts 0..3 and 4..7
    __m128i minimums[2];  // the same
    __m128 d;             // [row]
    __m128 dmin;          // [row], negated
  };
  static KVD_ALWAYS_INLINE Parts PartsOf(const WeightRows& rows) {
    const __m128i six = _mm_set1_epi8(63), four = _mm_set1_epi8(15), two = _mm_set1_epi8(3);
    const __m128i w0 = Words(rows, 4), w1 = Words(rows, 8), w2 = Words(rows, 12);
    const auto joined = [&](__m128i low, __m128i top) KVD_INLINE_LAMBDA {
      return _mm_or_si128(_mm_and_si128(low, four),
                          _mm_slli_epi16(_mm_and_si128(_mm_srli_epi16(top, 6), two), 4));
    };
    Parts parts;
    parts.scales[0] = _mm_and_si128(w0, six);
    parts.scales[1] = joined(w2, w0);
    parts.minimums[0] = _mm_and_si128(w1, six);
    parts.minimums[1] = joined(_mm_srli_epi16(w2, 4), w1);
    const __m256 both = _mm256_cvtph_ps(Words(rows, 0));  // d, dmin of each row
    const __m128 low = _mm256_castps256_ps128(both), top = _mm256_extractf128_ps(both, 1);
    parts.d = _mm_shuffle_ps(low, top, 0x88);
    parts.dmin = _mm_xor_ps(_mm_shuffle_ps(low, top, 0xdd), _mm_set1_ps(-0.0f));
    return parts;
  }

  // The integer scales of elements 0..15 and 16..31 of four parts of a q6_K block, [row][part].
  struct HalfScales {
    __m128i first;
    __m128i second;
  };
  static KVD_ALWAYS_INLINE HalfScales HalfScalesOf(const WeightRows& rows, std::size_t at) {
    const __m128i split = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    // [half][row][part] of parts 0 and 1, and of 2 and 3
    const __m128i a = _mm_shuffle_epi8(Words(rows, at), split);
    const __m128i b = _mm_shuffle_epi8(Words(rows, at + 4), split);
    return {_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b)};
  }
};

}  // namespace kvd::kernels
