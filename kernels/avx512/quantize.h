// A row of x to int8 (kernels/quantized_row.h), for AVX-512.
#pragma once

#include "kernels/avx512/lanes.h"
#include "kernels/quantized_row.h"

namespace kvd::kernels::avx512 {

struct BlockQuantizer {
  // Block b of a row, from the 32 elements at x.
  static KVD_ALWAYS_INLINE void Put(const float* x, std::size_t b, const MutableQuantizedRow& to) {
    const __m512 low = _mm512_loadu_ps(x), high = _mm512_loadu_ps(x + 16);
    const __m512i magnitude = _mm512_set1_epi32(INT32_MAX);
    const __m512i bits = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(low), magnitude),
                                          _mm512_and_si512(_mm512_castps_si512(high), magnitude));
    const std::uint32_t largest = static_cast<std::uint32_t>(_mm512_reduce_max_epi32(bits));
    const bool finite = largest < 0x7f800000u;
    const std::uint32_t used = finite ? largest : kQuantizedNan;
    float d;
    __builtin_memcpy(&d, &used, sizeof d);
    if (finite) d = d / 127.0f;
    const float inverse = finite && d >= 0x1p-126f ? 1.0f / d : 0.0f;
    const __mmask16 kept = finite ? 0xffff : 0;
    const __m512 factor = _mm512_set1_ps(inverse);
    const __m512i first = _mm512_maskz_cvtps_epi32(kept, _mm512_mul_ps(low, factor));
    const __m512i second = _mm512_maskz_cvtps_epi32(kept, _mm512_mul_ps(high, factor));
    auto* q = reinterpret_cast<__m128i*>(to.q + kQuantizedBlock * b);
    _mm_storeu_si128(q, _mm512_cvtepi32_epi8(first));
    _mm_storeu_si128(q + 1, _mm512_cvtepi32_epi8(second));
    const int half = _mm512_reduce_add_epi32(first), rest = _mm512_reduce_add_epi32(second);
    to.scales[b] = d;
    to.sums[b] = half + rest;
    to.half_sums[b] = half;
    to.scaled_sums[b] = d * static_cast<float>(half + rest);
  }
};

}  // namespace kvd::kernels::avx512
