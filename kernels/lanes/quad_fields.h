// Reads the scales of four blocks of each of four weight rows into 128-bit registers, for every
// instruction set.
#pragma once

#include <immintrin.h>

#include "kernels/lanes/quant_rows.h"
#include "kernels/quant_blocks.h"

namespace kvd::kernels {

// Lanes: a type of the instruction set, so that the symbols name the set.
template <class Lanes>
struct QuadFields {
  static KVD_ALWAYS_INLINE std::uint64_t Half(const std::uint8_t* from) {
    std::uint16_t half = 0;
    __builtin_memcpy(&half, from, sizeof half);
    return half;
  }
  // The halves at `at` of four rows; the first row's is the lowest.
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
  // The bytes at `at` of four blocks of four rows, [row][block].
  template <std::size_t kStride>
  static KVD_ALWAYS_INLINE __m128i BytesOfBlocks(const WeightRows& rows, std::size_t at) {
    const auto of_row = [&](int o) KVD_INLINE_LAMBDA {
      const std::uint8_t* from = rows.at[o] + at;
      return static_cast<int>(from[0] | std::uint32_t{from[kStride]} << 8 |
                              std::uint32_t{from[2 * kStride]} << 16 |
                              std::uint32_t{from[3 * kStride]} << 24);
    };
    return _mm_setr_epi32(of_row(0), of_row(1), of_row(2), of_row(3));
  }
  // Bytes [row][block] become [block][row].
  static KVD_ALWAYS_INLINE __m128i Transposed(__m128i bytes) {
    return _mm_shuffle_epi8(bytes,
                            _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  }

  // The d and the negated dmin of each row of a type that stores them at `at`, one after the other.
  struct Factors {
    __m128 d;
    __m128 dmin;
  };
  static KVD_ALWAYS_INLINE Factors FactorsOf(const WeightRows& rows, std::size_t at) {
    return FactorsOf(Words(rows, at));
  }
  // words: d and dmin of each row.
  static KVD_ALWAYS_INLINE Factors FactorsOf(__m128i words) {
    const __m256 both = _mm256_cvtph_ps(words);
    const __m128 low = _mm256_castps256_ps128(both), top = _mm256_extractf128_ps(both, 1);
    return {_mm_shuffle_ps(low, top, 0x88),
            _mm_xor_ps(_mm_shuffle_ps(low, top, 0xdd), _mm_set1_ps(-0.0f))};
  }

  // The scales and minimums of a q4_K or q5_K block of each row.
  struct Parts {
    __m128i scales[2];    // 6 bits each, [row][part % 4], for parts 0..3 and 4..7
    __m128i minimums[2];  // stored in the same way
    Factors factors;
  };
  static KVD_ALWAYS_INLINE Parts PartsOf(const WeightRows& rows) {
    const __m128i six = _mm_set1_epi8(63), four = _mm_set1_epi8(15), two = _mm_set1_epi8(3);
    // The first sixteen bytes of each row: d and dmin, then three words of scales and minimums.
    const auto row = [&](int o) KVD_INLINE_LAMBDA {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows.at[o]));
    };
    const __m128i r0 = row(0), r1 = row(1), r2 = row(2), r3 = row(3);
    const __m128i a = _mm_unpacklo_epi32(r0, r1), b = _mm_unpacklo_epi32(r2, r3);
    const __m128i c = _mm_unpackhi_epi32(r0, r1), d = _mm_unpackhi_epi32(r2, r3);
    const __m128i w0 = _mm_unpackhi_epi64(a, b);
    const __m128i w1 = _mm_unpacklo_epi64(c, d), w2 = _mm_unpackhi_epi64(c, d);
    const auto joined = [&](__m128i low, __m128i top) KVD_INLINE_LAMBDA {
      return _mm_or_si128(_mm_and_si128(low, four),
                          _mm_slli_epi16(_mm_and_si128(_mm_srli_epi16(top, 6), two), 4));
    };
    Parts parts;
    parts.scales[0] = _mm_and_si128(w0, six);
    parts.scales[1] = joined(w2, w0);
    parts.minimums[0] = _mm_and_si128(w1, six);
    parts.minimums[1] = joined(_mm_srli_epi16(w2, 4), w1);
    parts.factors = FactorsOf(_mm_unpacklo_epi64(a, b));
    return parts;
  }

  // A byte for each half part of four parts, [row][part]: of elements 0..15, and of 16..31.
  struct HalfBytes {
    __m128i first;
    __m128i second;
  };
  // a: [row][half part] of parts 0 and 1; b: of parts 2 and 3.
  static KVD_ALWAYS_INLINE HalfBytes HalfBytesOf(__m128i a, __m128i b) {
    const __m128i split = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    const __m128i c = _mm_shuffle_epi8(a, split), d = _mm_shuffle_epi8(b, split);
    return {_mm_unpacklo_epi16(c, d), _mm_unpackhi_epi16(c, d)};
  }
  // The integer scales at `at` of a q6_K block.
  static KVD_ALWAYS_INLINE HalfBytes HalfScalesOf(const WeightRows& rows, std::size_t at) {
    return HalfBytesOf(Words(rows, at), Words(rows, at + 4));
  }

  static KVD_ALWAYS_INLINE __m128i Low(__m128i bytes) {
    return _mm_and_si128(bytes, _mm_set1_epi8(15));
  }
  static KVD_ALWAYS_INLINE __m128i High(__m128i bytes) { return Low(_mm_srli_epi16(bytes, 4)); }
  // Bits [kBit, kBit + 2) of each byte, as bits 4 and 5.
  template <int kBit>
  static KVD_ALWAYS_INLINE __m128i TwoAsTop(__m128i bytes) {
    const __m128i moved = kBit < 4 ? _mm_slli_epi16(bytes, kBit < 4 ? 4 - kBit : 0)
                                   : _mm_srli_epi16(bytes, kBit < 4 ? 0 : kBit - 4);
    return _mm_and_si128(moved, _mm_set1_epi8(48));
  }

  // The scales of four parts of an iq4_xs block of each row, [row][part], signed.
  template <int kGroup>
  static KVD_ALWAYS_INLINE __m128i ScalesOfIQ4_XS(const WeightRows& rows) {
    constexpr char a = 2 * kGroup, b = 2 * kGroup + 1, h = 2 + kGroup;
    const __m128i twice = _mm_shuffle_epi8(  // the byte of each part
        Words(rows, offsetof(BlockIQ4_XS, scales_l)),
        _mm_setr_epi8(a, a, b, b, a + 4, a + 4, b + 4, b + 4, a + 8, a + 8, b + 8, b + 8, a + 12,
                      a + 12, b + 12, b + 12));
    const __m128i low =
        _mm_or_si128(_mm_and_si128(twice, _mm_set1_epi16(0x000f)),
                     _mm_and_si128(_mm_srli_epi16(twice, 4), _mm_set1_epi16(0x0f00)));
    const __m128i tops = _mm_shuffle_epi8(
        Words(rows, 0), _mm_setr_epi8(h, h, h, h, h + 4, h + 4, h + 4, h + 4, h + 8, h + 8, h + 8,
                                      h + 8, h + 12, h + 12, h + 12, h + 12));
    const auto of_part = [&](__m128i bits, int part) KVD_INLINE_LAMBDA {
      return _mm_and_si128(bits, _mm_set1_epi32(static_cast<int>(0xffu << (8 * part))));
    };
    const __m128i high =
        _mm_or_si128(_mm_or_si128(of_part(TwoAsTop<0>(tops), 0), of_part(TwoAsTop<2>(tops), 1)),
                     _mm_or_si128(of_part(TwoAsTop<4>(tops), 2), of_part(TwoAsTop<6>(tops), 3)));
    return _mm_sub_epi8(_mm_or_si128(low, high), _mm_set1_epi8(32));
  }
};

}  // namespace kvd::kernels
