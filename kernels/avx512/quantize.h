// Quantises a row of x to int8 (kernels/quantized_row.h), for AVX-512.
#pragma once

#include "kernels/avx512/lanes.h"
#include "kernels/quantized_row.h"

namespace kvd::kernels::avx512 {

struct BlockQuantizer {
  static constexpr std::size_t kTogether = 16;

  // Writes blocks [b, b + kTogether) of a row, from the elements at x. Returns false and writes
  // nothing if one of the elements is not finite. Divisions and operations across lanes are done
  // for all blocks at once.
  static KVD_ALWAYS_INLINE bool PutTogether(const float* x, std::size_t b,
                                            const MutableQuantizedRow& to) {
    __m512i largest4[4];
    StaticFor<4>([&](auto i) KVD_INLINE_LAMBDA {
      __m512i bits[4];
      StaticFor<4>([&](auto j) KVD_INLINE_LAMBDA {
        bits[j.value] = Magnitudes(x + kQuantizedBlock * (4 * i.value + j.value));
      });
      largest4[i.value] = WithinLanes<Larger>(bits);
    });
    const __m512i largest = OverLanes<Larger>(largest4);
    if (_mm512_cmpge_epi32_mask(largest, _mm512_set1_epi32(0x7f800000)) != 0) return false;
    const __m512 d = _mm512_div_ps(_mm512_castsi512_ps(largest), _mm512_set1_ps(127.0f));
    const __mmask16 is_normal = _mm512_cmp_ps_mask(d, _mm512_set1_ps(0x1p-126f), _CMP_GE_OQ);
    alignas(64) float inverses[16];
    _mm512_store_ps(inverses, _mm512_maskz_div_ps(is_normal, _mm512_set1_ps(1.0f), d));

    // sums[i] has the sums of the half blocks of eight blocks. The 128-bit lanes 0 and 1 are for
    // the first and second halves of the blocks 0, 2, 4 and 6 of the eight, lanes 2 and 3 for those
    // of the blocks 1, 3, 5 and 7.
    __m512i sums[2];
    StaticFor<2>([&](auto i) KVD_INLINE_LAMBDA {
      __m512i fours[4];
      StaticFor<4>([&](auto j) KVD_INLINE_LAMBDA {
        constexpr std::size_t kBlock = 8 * i.value + 2 * j.value;
        const __m512i q = TwoBlocks(x + kQuantizedBlock * kBlock, inverses + kBlock);
        _mm512_storeu_si512(to.q + kQuantizedBlock * (b + kBlock), q);
        fours[j.value] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), q);
      });
      sums[i.value] = WithinLanes<Sum>(fours);
    });
    const __m512i halves =
        _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 16, 24, 17, 25, 18, 26, 19, 27);
    const __m512i rests = _mm512_add_epi32(halves, _mm512_set1_epi32(4));
    const __m512i half = _mm512_permutex2var_epi32(sums[0], halves, sums[1]);
    const __m512i sum = _mm512_add_epi32(half, _mm512_permutex2var_epi32(sums[0], rests, sums[1]));
    _mm512_storeu_ps(to.scales + b, d);
    const auto start = [](__m512i of) KVD_INLINE_LAMBDA {
      return _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(of, 7));
    };
    _mm512_storeu_si512(to.starts + b, start(sum));
    _mm512_storeu_si512(to.half_starts + b, start(half));
    _mm512_storeu_ps(to.scaled_sums + b, _mm512_mul_ps(d, _mm512_cvtepi32_ps(sum)));
    return true;
  }

  // Writes block b of a row, from the 32 elements at x.
  static KVD_ALWAYS_INLINE void Put(const float* x, std::size_t b, const MutableQuantizedRow& to) {
    const __m512 low = _mm512_loadu_ps(x), high = _mm512_loadu_ps(x + 16);
    const std::uint32_t largest =
        static_cast<std::uint32_t>(_mm512_reduce_max_epi32(Magnitudes(x)));
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
    to.starts[b] = -128 * (half + rest);
    to.half_starts[b] = -128 * half;
    to.scaled_sums[b] = d * static_cast<float>(half + rest);
  }

 private:
  struct Larger {
    static KVD_ALWAYS_INLINE __m512i Of(__m512i a, __m512i b) { return _mm512_max_epi32(a, b); }
  };
  struct Sum {
    static KVD_ALWAYS_INLINE __m512i Of(__m512i a, __m512i b) { return _mm512_add_epi32(a, b); }
  };

  // For each i < 16, the larger magnitude of elements i and 16 + i of a block, as bits.
  static KVD_ALWAYS_INLINE __m512i Magnitudes(const float* x) {
    const __m512i magnitude = _mm512_set1_epi32(INT32_MAX);
    return _mm512_max_epi32(_mm512_and_si512(_mm512_loadu_si512(x), magnitude),
                            _mm512_and_si512(_mm512_loadu_si512(x + 16), magnitude));
  }

  // Element i of each 128-bit lane is Op applied to that lane of v[i].
  template <class Op>
  static KVD_ALWAYS_INLINE __m512i WithinLanes(const __m512i (&v)[4]) {
    const __m512i a = Op::Of(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    const __m512i b = Op::Of(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    return Op::Of(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
  }

  // The 128-bit lane i is Op applied to the 128-bit lanes of v[i].
  template <class Op>
  static KVD_ALWAYS_INLINE __m512i OverLanes(const __m512i (&v)[4]) {
    const __m512i a =
        Op::Of(_mm512_shuffle_i32x4(v[0], v[1], 0x44), _mm512_shuffle_i32x4(v[0], v[1], 0xee));
    const __m512i b =
        Op::Of(_mm512_shuffle_i32x4(v[2], v[3], 0x44), _mm512_shuffle_i32x4(v[2], v[3], 0xee));
    return Op::Of(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
  }

  // Two blocks at x as bytes, one after the other.
  static KVD_ALWAYS_INLINE __m512i TwoBlocks(const float* x, const float* inverses) {
    __m512i q[4];
    StaticFor<4>([&](auto i) KVD_INLINE_LAMBDA {
      const __m512 factor = _mm512_set1_ps(inverses[i.value / 2]);
      q[i.value] = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 16 * i.value), factor));
    });
    const __m512i bytes =
        _mm512_packs_epi16(_mm512_packs_epi32(q[0], q[1]), _mm512_packs_epi32(q[2], q[3]));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, bytes);
  }
};

}  // namespace kvd::kernels::avx512
