// Quantises a row of x to int8 (kernels/quantized_row.h), for AVX2.
#pragma once

#include "kernels/avx2/lanes.h"
#include "kernels/quantized_row.h"

namespace kvd::kernels::avx2 {

struct BlockQuantizer {
  // Writes block b of a row, from the 32 elements at x.
  static KVD_ALWAYS_INLINE void Put(const float* x, std::size_t b, const MutableQuantizedRow& to) {
    __m256 v[4];
    StaticFor<4>([&](auto i) KVD_INLINE_LAMBDA { v[i.value] = _mm256_loadu_ps(x + 8 * i.value); });
    const __m256i magnitude = _mm256_set1_epi32(INT32_MAX);
    __m256i bits = _mm256_setzero_si256();
    StaticFor<4>([&](auto i) KVD_INLINE_LAMBDA {
      bits = _mm256_max_epi32(bits, _mm256_and_si256(_mm256_castps_si256(v[i.value]), magnitude));
    });
    __m128i most = _mm_max_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4e));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0xb1));
    const auto largest = static_cast<std::uint32_t>(_mm_cvtsi128_si32(most));
    const bool finite = largest < 0x7f800000u;
    const std::uint32_t used = finite ? largest : kQuantizedNan;
    float d;
    __builtin_memcpy(&d, &used, sizeof d);
    if (finite) d = d / 127.0f;
    const float inverse = finite && d >= 0x1p-126f ? 1.0f / d : 0.0f;
    const __m256i kept = _mm256_set1_epi32(finite ? -1 : 0);
    const __m256 factor = _mm256_set1_ps(inverse);
    __m256i q[4];
    StaticFor<4>([&](auto i) KVD_INLINE_LAMBDA {
      q[i.value] = _mm256_and_si256(kept, _mm256_cvtps_epi32(_mm256_mul_ps(v[i.value], factor)));
    });
    // Packing works within 128-bit halves; the permutation restores the order of the words.
    const __m256i packed =
        _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(to.q + kQuantizedBlock * b),
        _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
    const int half = Total(_mm256_add_epi32(q[0], q[1]));
    const int rest = Total(_mm256_add_epi32(q[2], q[3]));
    to.scales[b] = d;
    to.starts[b] = -128 * (half + rest);
    to.half_starts[b] = -128 * half;
    to.scaled_sums[b] = d * static_cast<float>(half + rest);
  }

 private:
  static KVD_ALWAYS_INLINE int Total(__m256i v) {
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1));
    return _mm_cvtsi128_si32(sum);
  }
};

}  // namespace kvd::kernels::avx2
