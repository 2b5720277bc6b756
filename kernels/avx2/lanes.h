// Sixteen f32 lanes in two ymm registers: the operations that kernels/lanes needs, for AVX2, FMA
// and F16C.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/form_constants.h"
#include "kernels/lanes/static_for.h"

namespace kvd::kernels::avx2 {

struct Lanes {
  struct V {  // lane i is partial sum i of the numeric form
    __m256 low;
    __m256 high;
  };
  struct Mask {
    __m256i low;
    __m256i high;
  };

  // Sizes of register blocks. With 16 registers, a wide tile holds 3 * 2 sums of two registers
  // each, 3 rows and a weight. For up to kNarrowRowsMax rows, decoding in registers is faster than
  // a panel (measured on Zen 5).
  static constexpr int kWideRows = 3;
  static constexpr int kWideOuts = 2;
  // A tile of outer products holds 6 sums of two registers each, a weight and an element of x. They
  // are faster than panels of elements from kOuterRowsMin rows on (measured on Zen 3).
  static constexpr int kOuterRows = 6;
  static constexpr int kOuterVectors = 1;
  static constexpr std::size_t kOuterRowsMin = 64;
  static constexpr int kNarrowTileRows = 4;
  static constexpr int kNarrowRowsMax = 8;
  static constexpr int kScoreRowsMax = 3;
  static constexpr int kValueRowsMax = 3;
  static constexpr int ValueBlocks(int rows) { return rows == 1 ? 2 : 1; }
  static constexpr int NarrowOuts(int rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }

  static KVD_ALWAYS_INLINE V Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static KVD_ALWAYS_INLINE V Set(float value) {
    return {_mm256_set1_ps(value), _mm256_set1_ps(value)};
  }
  static KVD_ALWAYS_INLINE V Load(const float* from) {
    return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
  }
  static KVD_ALWAYS_INLINE void Store(float* to, V v) {
    _mm256_storeu_ps(to, v.low);
    _mm256_storeu_ps(to + 8, v.high);
  }

  // A mask of the first n < 16 lanes. Loads give 0 in the other lanes; stores do not write them.
  static KVD_ALWAYS_INLINE Mask FirstLanes(std::size_t n) {
    const __m256i count = _mm256_set1_epi32(static_cast<int>(n));
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return {_mm256_cmpgt_epi32(count, index),
            _mm256_cmpgt_epi32(count, _mm256_add_epi32(index, _mm256_set1_epi32(8)))};
  }
  static KVD_ALWAYS_INLINE V Load(const float* from, Mask mask) {
    return {_mm256_maskload_ps(from, mask.low), _mm256_maskload_ps(from + 8, mask.high)};
  }
  static KVD_ALWAYS_INLINE void Store(float* to, V v, Mask mask) {
    _mm256_maskstore_ps(to, mask.low, v.low);
    _mm256_maskstore_ps(to + 8, mask.high, v.high);
  }
  static KVD_ALWAYS_INLINE V Select(Mask mask, V chosen, V otherwise) {
    return {_mm256_blendv_ps(otherwise.low, chosen.low, _mm256_castsi256_ps(mask.low)),
            _mm256_blendv_ps(otherwise.high, chosen.high, _mm256_castsi256_ps(mask.high))};
  }

  static KVD_ALWAYS_INLINE V Add(V a, V b) {
    return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
  }
  static KVD_ALWAYS_INLINE V Sub(V a, V b) {
    return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
  }
  static KVD_ALWAYS_INLINE V Mul(V a, V b) {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
  }
  static KVD_ALWAYS_INLINE V Div(V a, V b) {
    return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
  }
  static KVD_ALWAYS_INLINE V Min(V a, V b) {
    return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
  }
  static KVD_ALWAYS_INLINE V Max(V a, V b) {
    return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
  }
  static KVD_ALWAYS_INLINE V Fma(V a, V b, V c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  // Computes a * b + c in the lanes of the mask; the other lanes keep the value of c.
  static KVD_ALWAYS_INLINE V Fma(V a, V b, V c, Mask mask) { return Select(mask, Fma(a, b, c), c); }
  // sums[r][o] += products of sixteen elements of row r of x and output o of the panel. The halves
  // of a vector are processed one after the other, with each operand pinned to a register;
  // otherwise the compiler would load the operand again for each multiply-add.
  template <int kRows>
  static KVD_ALWAYS_INLINE void AddProducts(const float* x, std::size_t x_stride,
                                            const float* panel, V (&sums)[kRows][kWideOuts]) {
    StaticFor<2>([&](auto half) KVD_INLINE_LAMBDA {
      __m256 rows[kRows];
      StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
        rows[r.value] = Pinned(_mm256_loadu_ps(x + r.value * x_stride + 8 * half.value));
      });
      StaticFor<kWideOuts>([&](auto o) KVD_INLINE_LAMBDA {
        const __m256 w = Pinned(_mm256_loadu_ps(panel + 16 * o.value + 8 * half.value));
        StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
          V& sum = sums[r.value][o.value];
          __m256& part = half.value == 0 ? sum.low : sum.high;
          part = _mm256_fmadd_ps(rows[r.value], w, part);
        });
      });
    });
  }
  static KVD_ALWAYS_INLINE V Negate(V a) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_xor_ps(a.low, sign), _mm256_xor_ps(a.high, sign)};
  }

  // Computes Exp as kernels/form_constants.h defines it.
  static KVD_ALWAYS_INLINE V Exp(V x) {
    x = Min(Set(kExpAbove), x);
    x = Max(Set(kExpBelow), x);
    V t = Fma(x, Set(kLog2E), Set(kExpRound));
    const __m256i n_low = IntegerOf(t.low), n_high = IntegerOf(t.high);
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
    return {TimesPowerOfTwo(p.low, n_low), TimesPowerOfTwo(p.high, n_high)};
  }

  // v * 2^n, rounded once, for integral n >= -151; if v is a NaN, the result is a NaN.
  static KVD_ALWAYS_INLINE V TimesPowerOfTwo(V v, V n) {
    return {TimesPowerOfTwo(v.low, _mm256_cvtps_epi32(n.low)),
            TimesPowerOfTwo(v.high, _mm256_cvtps_epi32(n.high))};
  }

  // Rounds each lane to f16 and replaces the lane by the table's entry at the index of the f16
  // bits.
  static KVD_ALWAYS_INLINE V LookedUpAsF16(V v, const std::uint16_t* table) {
    std::uint16_t halves[16];
    const auto at = [&](int half)
                        KVD_INLINE_LAMBDA { return reinterpret_cast<__m128i*>(halves + 8 * half); };
    _mm_storeu_si128(at(0), _mm256_cvtps_ph(v.low, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(at(1), _mm256_cvtps_ph(v.high, _MM_FROUND_TO_NEAREST_INT));
    for (std::uint16_t& half : halves) half = table[half];
    return {_mm256_cvtph_ps(_mm_loadu_si128(at(0))), _mm256_cvtph_ps(_mm_loadu_si128(at(1)))};
  }

  static KVD_ALWAYS_INLINE V Tanh(V x) {
    return {Joined(Tanh4(_mm256_castps256_ps128(x.low)), Tanh4(_mm256_extractf128_ps(x.low, 1))),
            Joined(Tanh4(_mm256_castps256_ps128(x.high)), Tanh4(_mm256_extractf128_ps(x.high, 1)))};
  }

  // The sum of the sixteen lanes, in the order of the numeric form's fixed tree of additions.
  static KVD_ALWAYS_INLINE float Total(V v) {
    const __m256 eight = _mm256_add_ps(v.low, v.high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_permute_ps(four, 0x4e));
    return _mm_cvtss_f32(_mm_add_ps(two, _mm_permute_ps(two, 0xb1)));
  }
  // Doubles: sixteen sums in double of products in f32.
  struct Doubles {
    __m256d quarters[4];
  };
  static KVD_ALWAYS_INLINE Doubles ZeroDoubles() {
    const __m256d zero = _mm256_setzero_pd();
    return {{zero, zero, zero, zero}};
  }
  static KVD_ALWAYS_INLINE void AddSquares(V v, Doubles* sums) {
    const V squares = Mul(v, v);
    AddTo(&sums->quarters[0], _mm256_castps256_ps128(squares.low));
    AddTo(&sums->quarters[1], _mm256_extractf128_ps(squares.low, 1));
    AddTo(&sums->quarters[2], _mm256_castps256_ps128(squares.high));
    AddTo(&sums->quarters[3], _mm256_extractf128_ps(squares.high, 1));
  }
  static KVD_ALWAYS_INLINE double Total(const Doubles& sums) {
    const __m256d four = _mm256_add_pd(_mm256_add_pd(sums.quarters[0], sums.quarters[2]),
                                       _mm256_add_pd(sums.quarters[1], sums.quarters[3]));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_pd(two, _mm_unpackhi_pd(two, two)));
  }
  // Computes totals[i] = Total(v[i]) with the same additions as Total, for four vectors at once.
  static KVD_ALWAYS_INLINE void Totals4(const V* v, float* totals) {
    const __m256 a = _mm256_add_ps(v[0].low, v[0].high), b = _mm256_add_ps(v[1].low, v[1].high);
    const __m256 c = _mm256_add_ps(v[2].low, v[2].high), d = _mm256_add_ps(v[3].low, v[3].high);
    const __m256 ab =
        _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
    const __m256 cd =
        _mm256_add_ps(_mm256_permute2f128_ps(c, d, 0x20), _mm256_permute2f128_ps(c, d, 0x31));
    const __m256 two =
        _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    const __m256 one = _mm256_add_ps(two, _mm256_permute_ps(two, 0xb1));  // A A C C | B B D D
    const __m128 ac = _mm256_castps256_ps128(one), bd = _mm256_extractf128_ps(one, 1);
    _mm_storeu_ps(totals, _mm_movelh_ps(_mm_unpacklo_ps(ac, bd), _mm_unpackhi_ps(ac, bd)));
  }
  static KVD_ALWAYS_INLINE float Largest(V v) {
    const __m256 eight = _mm256_max_ps(v.low, v.high);
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    m = _mm_max_ps(m, _mm_permute_ps(m, 0x4e));
    return _mm_cvtss_f32(_mm_max_ps(m, _mm_permute_ps(m, 0xb1)));
  }

  // largest[i] = Largest(v[i]), for four vectors at once.
  static KVD_ALWAYS_INLINE void Largest4(const V* v, float* largest) {
    StaticFor<4>([&](auto i) KVD_INLINE_LAMBDA { largest[i.value] = Largest(v[i.value]); });
  }

  // to[j][i] = from[i][j]; i, j < 16.
  static KVD_ALWAYS_INLINE void Transpose16(const float* from, std::size_t from_stride, float* to,
                                            std::size_t to_stride) {
    for (std::size_t i = 0; i < 16; i += 8) {
      for (std::size_t j = 0; j < 16; j += 8) {
        Transpose8(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
      }
    }
  }

  // Returns one bit per lane, which is 1 if the lanes are equal.
  static KVD_ALWAYS_INLINE unsigned EqualBits(V a, V b) {
    return Bits(_mm256_cmp_ps(a.low, b.low, _CMP_EQ_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_EQ_OQ));
  }
  static KVD_ALWAYS_INLINE unsigned NotFiniteBits(V v) {
    return Bits(NotFinite(v.low), NotFinite(v.high));
  }

  // Rearranges (a0 a1 a2 ...)(b0 b1 ...) to (a0 a2 ... b0 b2 ...)(a1 a3 ... b1 b3 ...), and back.
  static KVD_ALWAYS_INLINE void Deinterleave(V* a, V* b) {
    const V evens = {Evens(a->low, a->high), Evens(b->low, b->high)};
    *b = {Odds(a->low, a->high), Odds(b->low, b->high)};
    *a = evens;
  }
  static KVD_ALWAYS_INLINE void Interleave(V* a, V* b) {
    const V lows = {LowPairs(a->low, b->low), HighPairs(a->low, b->low)};
    *b = {LowPairs(a->high, b->high), HighPairs(a->high, b->high)};
    *a = lows;
  }

 private:
  static KVD_ALWAYS_INLINE void Transpose8(const float* from, std::size_t from_stride, float* to,
                                           std::size_t to_stride) {
    __m256 pairs[8], quads[8];
    StaticFor<4>([&](auto i) KVD_INLINE_LAMBDA {
      const __m256 a = _mm256_loadu_ps(from + 2 * i.value * from_stride);
      const __m256 b = _mm256_loadu_ps(from + (2 * i.value + 1) * from_stride);
      pairs[2 * i.value] = _mm256_unpacklo_ps(a, b);
      pairs[2 * i.value + 1] = _mm256_unpackhi_ps(a, b);
    });
    StaticFor<2>([&](auto q) KVD_INLINE_LAMBDA {
      StaticFor<2>([&](auto half) KVD_INLINE_LAMBDA {
        const __m256 a = pairs[4 * q.value + half.value], b = pairs[4 * q.value + 2 + half.value];
        quads[4 * q.value + 2 * half.value] = _mm256_shuffle_ps(a, b, 0x44);
        quads[4 * q.value + 2 * half.value + 1] = _mm256_shuffle_ps(a, b, 0xee);
      });
    });
    StaticFor<4>([&](auto j) KVD_INLINE_LAMBDA {
      const __m256 a = quads[j.value], b = quads[4 + j.value];
      _mm256_storeu_ps(to + j.value * to_stride, _mm256_permute2f128_ps(a, b, 0x20));
      _mm256_storeu_ps(to + (j.value + 4) * to_stride, _mm256_permute2f128_ps(a, b, 0x31));
    });
  }
  static KVD_ALWAYS_INLINE __m256 Joined(__m128 low, __m128 high) {
    return _mm256_set_m128(high, low);
  }
  static KVD_ALWAYS_INLINE __m128 Tanh4(__m128 x) {
    const auto set = [](double value) KVD_INLINE_LAMBDA { return _mm256_set1_pd(value); };
    __m256d d = _mm256_cvtps_pd(x);
    d = _mm256_min_pd(set(kTanhBound), _mm256_add_pd(d, d));
    d = _mm256_max_pd(set(-kTanhBound), d);
    __m256d t = _mm256_fmadd_pd(d, set(kTanhLog2E), set(kTanhRound));
    const __m256i n =
        _mm256_sub_epi64(_mm256_castpd_si256(t), _mm256_castpd_si256(set(kTanhRound)));
    t = _mm256_sub_pd(t, set(kTanhRound));
    __m256d r = _mm256_fmadd_pd(t, set(-kTanhLn2High), d);
    r = _mm256_fmadd_pd(t, set(-kTanhLn2Low), r);
    __m256d c = set(kTanhC[0]);
    StaticFor<7>([&](auto i)
                     KVD_INLINE_LAMBDA { c = _mm256_fmadd_pd(c, r, set(kTanhC[i.value + 1])); });
    const __m256d q = _mm256_fmadd_pd(_mm256_mul_pd(c, r), r, r);
    const __m256d power =
        _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_add_epi64(n, _mm256_set1_epi64x(1023)), 52));
    const __m256d m = _mm256_fmadd_pd(q, power, _mm256_sub_pd(power, set(1.0)));
    return _mm256_cvtpd_ps(_mm256_div_pd(m, _mm256_add_pd(m, set(2.0))));
  }
  static KVD_ALWAYS_INLINE void AddTo(__m256d* sum, __m128 v) {
    *sum = _mm256_add_pd(*sum, _mm256_cvtps_pd(v));
  }
  static KVD_ALWAYS_INLINE __m256 Pinned(__m256 v) {
    __asm__("" : "+x"(v));
    return v;
  }
  static KVD_ALWAYS_INLINE __m256i IntegerOf(__m256 t) {
    return _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_castps_si256(_mm256_set1_ps(kExpRound)));
  }
  static KVD_ALWAYS_INLINE __m256 PowerOfTwo(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
  }
  static KVD_ALWAYS_INLINE __m256 TimesPowerOfTwo(__m256 p, __m256i n) {
    const __m256i half = _mm256_srai_epi32(n, 1);
    return _mm256_mul_ps(_mm256_mul_ps(p, PowerOfTwo(half)), PowerOfTwo(_mm256_sub_epi32(n, half)));
  }
  static KVD_ALWAYS_INLINE unsigned Bits(__m256 low, __m256 high) {
    return static_cast<unsigned>(_mm256_movemask_ps(low)) |
           static_cast<unsigned>(_mm256_movemask_ps(high)) << 8;
  }
  static KVD_ALWAYS_INLINE __m256 NotFinite(__m256 v) {
    const __m256i exponent = _mm256_set1_epi32(0x7f800000);
    return _mm256_castsi256_ps(
        _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_castps_si256(v), exponent), exponent));
  }
  static KVD_ALWAYS_INLINE __m256 InOrder(__m256 v) {  // 64-bit quarters 0 2 1 3
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8));
  }
  static KVD_ALWAYS_INLINE __m256 Evens(__m256 a, __m256 b) {
    return InOrder(_mm256_shuffle_ps(a, b, 0x88));
  }
  static KVD_ALWAYS_INLINE __m256 Odds(__m256 a, __m256 b) {
    return InOrder(_mm256_shuffle_ps(a, b, 0xdd));
  }
  static KVD_ALWAYS_INLINE __m256 LowPairs(__m256 a, __m256 b) {
    return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x20);
  }
  static KVD_ALWAYS_INLINE __m256 HighPairs(__m256 a, __m256 b) {
    return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x31);
  }
};

}  // namespace kvd::kernels::avx2
