// Sixteen f32 lanes in one zmm register: the operations that kernels/lanes needs, for AVX-512.
#pragma once

#include <immintrin.h>
#include <cstddef>
#include <cstdint>

#include "kernels/form_constants.h"
#include "kernels/lanes/static_for.h"

namespace kvd::kernels::avx512 {

struct Lanes {
  using V = __m512;  // lane i is partial sum i of the numeric form
  using Mask = __mmask16;

  // Sizes of register blocks. With 32 registers, a wide tile holds 6 * 4 sums, 4 weights and a row.
  // For up to kNarrowRowsMax rows, decoding in registers is faster than a panel (measured on Zen 5
  // from memory and from cache).
  static constexpr int kWideRows = 6;
  static constexpr int kWideOuts = 4;
  // A tile of outer products holds 12 * 2 sums, 2 weights and an element of x. Whether they are
  // faster differs from processor to processor; 0: only if the daemon has measured it.
  static constexpr int kOuterRows = 12;
  static constexpr int kOuterVectors = 2;
  static constexpr std::size_t kOuterRowsMin = 0;
  static constexpr int kNarrowTileRows = 6;
  static constexpr int kNarrowRowsMax = 16;
  static constexpr int kScoreRowsMax = 8;
  static constexpr int kValueRowsMax = 8;
  static constexpr int ValueBlocks(int rows) { return rows == 1 ? 4 : rows <= 6 ? 2 : 1; }
  static constexpr int NarrowOuts(int /*rows*/) { return 4; }

  static KVD_ALWAYS_INLINE V Zero() { return _mm512_setzero_ps(); }
  static KVD_ALWAYS_INLINE V Set(float value) { return _mm512_set1_ps(value); }
  static KVD_ALWAYS_INLINE V Load(const float* from) { return _mm512_loadu_ps(from); }
  static KVD_ALWAYS_INLINE void Store(float* to, V v) { _mm512_storeu_ps(to, v); }

  // A mask of the first n < 16 lanes. Loads give 0 in the other lanes; stores do not write them.
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
  static KVD_ALWAYS_INLINE V Min(V a, V b) { return _mm512_min_ps(a, b); }
  static KVD_ALWAYS_INLINE V Max(V a, V b) { return _mm512_max_ps(a, b); }
  static KVD_ALWAYS_INLINE V Fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
  // Computes a * b + c in the lanes of the mask; the other lanes keep the value of c.
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

  // Computes Exp as kernels/form_constants.h defines it. The instruction scalef multiplies by 2^n
  // with one rounding, as the two products of that definition do.
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

  // v * 2^n, rounded once, for integral n.
  static KVD_ALWAYS_INLINE V TimesPowerOfTwo(V v, V n) { return _mm512_scalef_ps(v, n); }

  // Rounds each lane to f16 and replaces the lane by the table's entry at the index of the f16
  // bits.
  static KVD_ALWAYS_INLINE V LookedUpAsF16(V v, const std::uint16_t* table) {
    std::uint16_t halves[16];
    auto* all = reinterpret_cast<__m256i*>(halves);
    _mm256_storeu_si256(all, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    for (std::uint16_t& half : halves) half = table[half];
    return _mm512_cvtph_ps(_mm256_loadu_si256(all));
  }

  static KVD_ALWAYS_INLINE V Tanh(V x) {
    const __m256 low = Tanh8(_mm512_castps512_ps256(x));
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), Tanh8(_mm512_extractf32x8_ps(x, 1)), 1);
  }

  // The sum of the sixteen lanes, in the order of the numeric form's fixed tree of additions.
  static KVD_ALWAYS_INLINE float Total(V v) {
    const __m512 eight = Add(v, _mm512_shuffle_f32x4(v, v, 0x4e));
    const __m512 four = Add(eight, _mm512_shuffle_f32x4(eight, eight, 0xb1));
    const __m512 two = Add(four, _mm512_permute_ps(four, 0x4e));
    return _mm512_cvtss_f32(Add(two, _mm512_permute_ps(two, 0xb1)));
  }
  // Doubles: sixteen sums in double of products in f32.
  struct Doubles {
    __m512d low;
    __m512d high;
  };
  static KVD_ALWAYS_INLINE Doubles ZeroDoubles() {
    return {_mm512_setzero_pd(), _mm512_setzero_pd()};
  }
  static KVD_ALWAYS_INLINE void AddSquares(V v, Doubles* sums) {
    const V squares = Mul(v, v);
    sums->low = _mm512_add_pd(sums->low, _mm512_cvtps_pd(_mm512_castps512_ps256(squares)));
    sums->high = _mm512_add_pd(sums->high, _mm512_cvtps_pd(_mm512_extractf32x8_ps(squares, 1)));
  }
  static KVD_ALWAYS_INLINE double Total(const Doubles& sums) {
    const __m512d eight = _mm512_add_pd(sums.low, sums.high);
    const __m256d four =
        _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_pd(two, _mm_unpackhi_pd(two, two)));
  }
  // Computes totals[i] = Total(v[i]) with the same additions as Total, for four vectors at once.
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

  // largest[i] = Largest(v[i]), for four vectors at once.
  static KVD_ALWAYS_INLINE void Largest4(const V* v, float* largest) {
    const __m512 ab =
        Max(_mm512_shuffle_f32x4(v[0], v[1], 0x44), _mm512_shuffle_f32x4(v[0], v[1], 0xee));
    const __m512 cd =
        Max(_mm512_shuffle_f32x4(v[2], v[3], 0x44), _mm512_shuffle_f32x4(v[2], v[3], 0xee));
    const __m512 four = Max(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
    const __m512 two = Max(four, _mm512_permute_ps(four, 0x4e));
    const __m512 one = Max(two, _mm512_permute_ps(two, 0xb1));
    const __m512i firsts = _mm512_castsi128_si512(_mm_setr_epi32(0, 4, 8, 12));
    _mm_storeu_ps(largest, _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, one)));
  }

  // to[j][i] = from[i][j]; i, j < 16.
  static KVD_ALWAYS_INLINE void Transpose16(const float* from, std::size_t from_stride, float* to,
                                            std::size_t to_stride) {
    V rows[16], pairs[16], quads[16];
    StaticFor<16>([&](auto i)
                      KVD_INLINE_LAMBDA { rows[i.value] = Load(from + i.value * from_stride); });
    StaticFor<8>([&](auto i) KVD_INLINE_LAMBDA {
      pairs[2 * i.value] = _mm512_unpacklo_ps(rows[2 * i.value], rows[2 * i.value + 1]);
      pairs[2 * i.value + 1] = _mm512_unpackhi_ps(rows[2 * i.value], rows[2 * i.value + 1]);
    });
    // quads[4 * q + j]: element j of every four elements, of rows 4 * q to 4 * q + 3
    StaticFor<4>([&](auto q) KVD_INLINE_LAMBDA {
      StaticFor<2>([&](auto half) KVD_INLINE_LAMBDA {
        const __m512d a = _mm512_castps_pd(pairs[4 * q.value + half.value]);
        const __m512d b = _mm512_castps_pd(pairs[4 * q.value + 2 + half.value]);
        quads[4 * q.value + 2 * half.value] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
        quads[4 * q.value + 2 * half.value + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
      });
    });
    StaticFor<4>([&](auto j) KVD_INLINE_LAMBDA {
      const V a = quads[j.value], b = quads[4 + j.value], c = quads[8 + j.value],
              d = quads[12 + j.value];
      const V ab_even = _mm512_shuffle_f32x4(a, b, 0x88), ab_odd = _mm512_shuffle_f32x4(a, b, 0xdd);
      const V cd_even = _mm512_shuffle_f32x4(c, d, 0x88), cd_odd = _mm512_shuffle_f32x4(c, d, 0xdd);
      float* const row = to + j.value * to_stride;
      Store(row, _mm512_shuffle_f32x4(ab_even, cd_even, 0x88));
      Store(row + 4 * to_stride, _mm512_shuffle_f32x4(ab_odd, cd_odd, 0x88));
      Store(row + 8 * to_stride, _mm512_shuffle_f32x4(ab_even, cd_even, 0xdd));
      Store(row + 12 * to_stride, _mm512_shuffle_f32x4(ab_odd, cd_odd, 0xdd));
    });
  }

  // Returns one bit per lane, which is 1 if the lanes are equal.
  static KVD_ALWAYS_INLINE unsigned EqualBits(V a, V b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
  }
  static KVD_ALWAYS_INLINE unsigned NotFiniteBits(V v) {
    const __m512i exponent = _mm512_set1_epi32(0x7f800000);
    return _mm512_cmpeq_epi32_mask(_mm512_and_si512(_mm512_castps_si512(v), exponent), exponent);
  }

  // Rearranges (a0 a1 a2 ...)(b0 b1 ...) to (a0 a2 ... b0 b2 ...)(a1 a3 ... b1 b3 ...), and back.
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

 private:
  static KVD_ALWAYS_INLINE __m256 Tanh8(__m256 x) {
    const auto set = [](double value) KVD_INLINE_LAMBDA { return _mm512_set1_pd(value); };
    __m512d d = _mm512_cvtps_pd(x);
    d = _mm512_min_pd(set(kTanhBound), _mm512_add_pd(d, d));
    d = _mm512_max_pd(set(-kTanhBound), d);
    __m512d t = _mm512_fmadd_pd(d, set(kTanhLog2E), set(kTanhRound));
    const __m512i n =
        _mm512_sub_epi64(_mm512_castpd_si512(t), _mm512_castpd_si512(set(kTanhRound)));
    t = _mm512_sub_pd(t, set(kTanhRound));
    __m512d r = _mm512_fmadd_pd(t, set(-kTanhLn2High), d);
    r = _mm512_fmadd_pd(t, set(-kTanhLn2Low), r);
    __m512d c = set(kTanhC[0]);
    StaticFor<7>([&](auto i)
                     KVD_INLINE_LAMBDA { c = _mm512_fmadd_pd(c, r, set(kTanhC[i.value + 1])); });
    const __m512d q = _mm512_fmadd_pd(_mm512_mul_pd(c, r), r, r);
    const __m512d power =
        _mm512_castsi512_pd(_mm512_slli_epi64(_mm512_add_epi64(n, _mm512_set1_epi64(1023)), 52));
    const __m512d m = _mm512_fmadd_pd(q, power, _mm512_sub_pd(power, set(1.0)));
    return _mm512_cvtpd_ps(_mm512_div_pd(m, _mm512_add_pd(m, set(2.0))));
  }
};

// Transpositions of words or 128-bit lanes within four registers.

using I = __m512i;

struct Transposition {
  // 128-bit lane i of v[q] becomes 128-bit lane q of v[i].
  static KVD_ALWAYS_INLINE void Of128(I (&v)[4]) {
    const I a = _mm512_shuffle_i32x4(v[0], v[1], 0x44), b = _mm512_shuffle_i32x4(v[0], v[1], 0xee);
    const I c = _mm512_shuffle_i32x4(v[2], v[3], 0x44), d = _mm512_shuffle_i32x4(v[2], v[3], 0xee);
    v[0] = _mm512_shuffle_i32x4(a, c, 0x88);
    v[1] = _mm512_shuffle_i32x4(a, c, 0xdd);
    v[2] = _mm512_shuffle_i32x4(b, d, 0x88);
    v[3] = _mm512_shuffle_i32x4(b, d, 0xdd);
  }
  // Moves word i of v[q] to word q of v[i], within each 128-bit lane.
  static KVD_ALWAYS_INLINE void WithinLanes(I (&v)[4]) {
    const I a = _mm512_unpacklo_epi32(v[0], v[1]), b = _mm512_unpackhi_epi32(v[0], v[1]);
    const I c = _mm512_unpacklo_epi32(v[2], v[3]), d = _mm512_unpackhi_epi32(v[2], v[3]);
    v[0] = _mm512_unpacklo_epi64(a, c);
    v[1] = _mm512_unpackhi_epi64(a, c);
    v[2] = _mm512_unpacklo_epi64(b, d);
    v[3] = _mm512_unpackhi_epi64(b, d);
  }
};

}  // namespace kvd::kernels::avx512
