// Sixteen f32 lanes in one zmm register: what kernels/lanes needs to know of AVX-512.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/exp_poly.h"
#include "kernels/lanes/static_for.h"

namespace kvd::kernels::avx512 {

struct Lanes {
  using V = __m512;  // lane i is partial sum i of the numeric form
  using Mask = __mmask16;

  // Register blocks. 32 registers: a wide tile holds 6 * 4 sums, 4 weights and a row. Up to
  // kNarrowRowsMax rows decoding in registers beats a panel (measured on Zen 5 from memory and from
  // cache).
  static constexpr int kWideRows = 6;
  static constexpr int kWideOuts = 4;
  static constexpr int kNarrowTileRows = 6;
  static constexpr int kNarrowRowsMax = 16;
  static constexpr int kScoreRowsMax = 6;
  static constexpr int kValueBlocks = 4;  // of 32 elements
  static constexpr int NarrowOuts(int /*rows*/) { return 4; }

  static KVD_ALWAYS_INLINE V Zero() { return _mm512_setzero_ps(); }
  static KVD_ALWAYS_INLINE V Set(float value) { return _mm512_set1_ps(value); }
  static KVD_ALWAYS_INLINE V Load(const float* from) { return _mm512_loadu_ps(from); }
  static KVD_ALWAYS_INLINE void Store(float* to, V v) { _mm512_storeu_ps(to, v); }

  // The first n < 16 lanes. Loads give 0 in the others, stores leave them.
  static KVD_ALWAYS_INLINE Mask FirstLanes(std::size_t n) {
    return static_cast<Mask>((1u << n) - 1u);
  }
  static KVD_ALWAYS_INLINE V Load(const float* from, Mask mask) {
    return _mm512_maskz_loadu_ps(mask, from);
  }
  static KVD_ALWAYS_INLINE void Store(float* to, V v, Mask mask) {
    _mm512_mask_storeu_ps(to, mask, v);
  }
  static KVD_ALWAYS_INLINE V Select(Mask mask, V chosen, V otherwise) {
    return _mm512_mask_blend_ps(mask, otherwise, chosen);
  }

  static KVD_ALWAYS_INLINE V Add(V a, V b) { return _mm512_add_ps(a, b); }
  static KVD_ALWAYS_INLINE V Sub(V a, V b) { return _mm512_sub_ps(a, b); }
  static KVD_ALWAYS_INLINE V Mul(V a, V b) { return _mm512_mul_ps(a, b); }
  static KVD_ALWAYS_INLINE V Div(V a, V b) { return _mm512_div_ps(a, b); }
  static KVD_ALWAYS_INLINE V Max(V a, V b) { return _mm512_max_ps(a, b); }
  static KVD_ALWAYS_INLINE V Fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
  // Lanes outside the mask keep c.
  static KVD_ALWAYS_INLINE V Fma(V a, V b, V c, Mask mask) {
    return _mm512_mask3_fmadd_ps(a, b, c, mask);
  }
  // sums[r][o] += products of sixteen elements of row r of x and output o of the panel.
  template <int kRows>
  static KVD_ALWAYS_INLINE void AddProducts(const float* x, std::size_t x_stride,
                                            const float* panel, V (&sums)[kRows][kWideOuts]) {
    V w[kWideOuts];
    StaticFor<kWideOuts>([&](auto o)
                             KVD_INLINE_LAMBDA { w[o.value] = Load(panel + 16 * o.value); });
    StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
      const V row = Load(x + r.value * x_stride);
      StaticFor<kWideOuts>([&](auto o) KVD_INLINE_LAMBDA {
        sums[r.value][o.value] = Fma(row, w[o.value], sums[r.value][o.value]);
      });
    });
  }
  static KVD_ALWAYS_INLINE V Negate(V a) {
    return _mm512_castsi512_ps(
        _mm512_xor_si512(_mm512_castps_si512(a), _mm512_set1_epi32(INT32_MIN)));
  }

  // Of kernels/exp_poly.h. scalef multiplies by 2^n with one rounding, as the two products there
  // do.
  static KVD_ALWAYS_INLINE V Exp(V x) {
    x = _mm512_min_ps(Set(kExpAbove), x);
    x = _mm512_max_ps(Set(kExpBelow), x);
    V t = Fma(x, Set(kLog2E), Set(kExpRound));
    t = Sub(t, Set(kExpRound));
    V r = Fma(t, Set(-kLn2High), x);
    r = Fma(t, Set(-kLn2Low), r);
    V p = Set(kExpC6);
    p = Fma(p, r, Set(kExpC5));
    p = Fma(p, r, Set(kExpC4));
    p = Fma(p, r, Set(kExpC3));
    p = Fma(p, r, Set(kExpC2));
    p = Fma(p, r, Set(1.0f));
    p = Fma(p, r, Set(1.0f));
    return _mm512_scalef_ps(p, t);
  }

  static KVD_ALWAYS_INLINE V Tanh(V x) {
    x = Add(x, x);
    x = _mm512_min_ps(Set(kTanhBound), x);
    x = _mm512_max_ps(Set(-kTanhBound), x);
    V t = Fma(x, Set(kLog2E), Set(kExpRound));
    t = Sub(t, Set(kExpRound));
    const V power = _mm512_scalef_ps(Set(1.0f), t);
    V r = Fma(t, Set(-kLn2High), x);
    r = Fma(t, Set(-kLn2Low), r);
    V c = Set(kExpC6);
    c = Fma(c, r, Set(kExpC5));
    c = Fma(c, r, Set(kExpC4));
    c = Fma(c, r, Set(kExpC3));
    c = Fma(c, r, Set(kExpC2));
    const V q = Fma(Mul(c, r), r, r);
    const V m = Fma(q, power, Sub(power, Set(1.0f)));
    return Div(m, Add(m, Set(2.0f)));
  }

  // The fixed tree over the lanes.
  static KVD_ALWAYS_INLINE float Total(V v) {
    const __m512 eight = Add(v, _mm512_shuffle_f32x4(v, v, 0x4e));
    const __m512 four = Add(eight, _mm512_shuffle_f32x4(eight, eight, 0xb1));
    const __m512 two = Add(four, _mm512_permute_ps(four, 0x4e));
    return _mm512_cvtss_f32(Add(two, _mm512_permute_ps(two, 0xb1)));
  }
  // totals[i] = Total(v[i]): the same additions, for four vectors at once.
  static KVD_ALWAYS_INLINE void Totals4(const V* v, float* totals) {
    const __m512 ab =
        Add(_mm512_shuffle_f32x4(v[0], v[1], 0x44), _mm512_shuffle_f32x4(v[0], v[1], 0xee));
    const __m512 cd =
        Add(_mm512_shuffle_f32x4(v[2], v[3], 0x44), _mm512_shuffle_f32x4(v[2], v[3], 0xee));
    const __m512 four = Add(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
    const __m512 two = Add(four, _mm512_permute_ps(four, 0x4e));
    const __m512 one = Add(two, _mm512_permute_ps(two, 0xb1));
    const __m512i firsts = _mm512_castsi128_si512(_mm_setr_epi32(0, 4, 8, 12));
    _mm_storeu_ps(totals, _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, one)));
  }
  static KVD_ALWAYS_INLINE float Largest(V v) {
    V m = Max(v, _mm512_shuffle_f32x4(v, v, 0x4e));
    m = Max(m, _mm512_shuffle_f32x4(m, m, 0xb1));
    m = Max(m, _mm512_permute_ps(m, 0x4e));
    return _mm512_cvtss_f32(Max(m, _mm512_permute_ps(m, 0xb1)));
  }

  // One bit per lane.
  static KVD_ALWAYS_INLINE unsigned EqualBits(V a, V b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
  }
  static KVD_ALWAYS_INLINE unsigned NotFiniteBits(V v) {
    const __m512i exponent = _mm512_set1_epi32(0x7f800000);
    return _mm512_cmpeq_epi32_mask(_mm512_and_si512(_mm512_castps_si512(v), exponent), exponent);
  }

  // (a0 a1 a2 ...)(b0 b1 ...) to (a0 a2 ... b0 b2 ...)(a1 a3 ... b1 b3 ...), and back.
  static KVD_ALWAYS_INLINE void Deinterleave(V* a, V* b) {
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    const V evens = _mm512_permutex2var_ps(*a, even, *b);
    *b = _mm512_permutex2var_ps(*a, odd, *b);
    *a = evens;
  }
  static KVD_ALWAYS_INLINE void Interleave(V* a, V* b) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    const V lows = _mm512_permutex2var_ps(*a, low, *b);
    *b = _mm512_permutex2var_ps(*a, high, *b);
    *a = lows;
  }
};

}  // namespace kvd::kernels::avx512
