// How four blocks of each of four weight rows become integers in AVX-512 registers, for products
// with quantised activations (kernels/lanes/quant_tile.h).
//
// A quad's vectors of sixteen lanes have lane 4 * b + o for block b of row o. The elements are
// unsigned bytes, w.q + kOffset, in two registers per row. kOrder says which:
//   kPairs: blocks 0 and 1, blocks 2 and 3;
//   kEvenOdd: blocks 0 and 2, blocks 1 and 3;
//   kQuarters: elements 0..15 of blocks 0, 1, 2, 3, then elements 16..31 of them.
// A step is kGroups quads: the 256 elements of a K block, or four blocks of 32.
#pragma once

#include "kernels/avx512/decoders.h"
#include "kernels/lanes/quad_fields.h"

namespace kvd::kernels::avx512 {

using I = __m512i;
using Fields = QuadFields<Lanes>;

enum class QuadOrder { kPairs, kEvenOdd, kQuarters };

struct Quad {
  I w[4][2];
  V scales;
  V minimums;  // if kMinimums
  I parts[2];  // if kHalves: the integer scales of elements 0..15, and of 16..31
};

struct QuadBytes {
  static KVD_ALWAYS_INLINE I Low(I bytes) { return _mm512_and_si512(bytes, _mm512_set1_epi8(15)); }
  static KVD_ALWAYS_INLINE I High(I bytes) { return Low(_mm512_srli_epi16(bytes, 4)); }
  template <std::size_t kStride>
  static KVD_ALWAYS_INLINE I Load4x16(const std::uint8_t* from) {
    I v = _mm512_castsi128_si512(Bytes::Load16(from));
    v = _mm512_inserti32x4(v, Bytes::Load16(from + kStride), 1);
    v = _mm512_inserti32x4(v, Bytes::Load16(from + 2 * kStride), 2);
    return _mm512_inserti32x4(v, Bytes::Load16(from + 3 * kStride), 3);
  }
  static KVD_ALWAYS_INLINE I Load2x32(const std::uint8_t* a, const std::uint8_t* b) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(Bytes::Load32(a)), Bytes::Load32(b), 1);
  }
  // The halves `at` bytes into four blocks of four rows.
  template <std::size_t kStride>
  static KVD_ALWAYS_INLINE V Halves(const WeightRows& rows, std::size_t at) {
    return _mm512_cvtph_ps(_mm256_setr_epi64x(
        Fields::FourHalves(rows, at), Fields::FourHalves(rows, at + kStride),
        Fields::FourHalves(rows, at + 2 * kStride), Fields::FourHalves(rows, at + 3 * kStride)));
  }
  static KVD_ALWAYS_INLINE V Everywhere(__m128 v) { return _mm512_broadcast_f32x4(v); }
};

struct QuadQ8_0 {
  static constexpr std::size_t kBytes = 4 * sizeof(BlockQ8_0);  // of a step
  static constexpr int kGroups = 1, kOffset = 128;
  static constexpr bool kMinimums = false, kHalves = false;
  static constexpr QuadOrder kOrder = QuadOrder::kPairs;
  using State = NoState;
  static KVD_ALWAYS_INLINE State Open(const WeightRows&) { return {}; }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State&, const WeightRows& rows, Quad* quad) {
    constexpr std::size_t kStride = sizeof(BlockQ8_0);
    const I sign = _mm512_set1_epi8(-128);
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      const std::uint8_t* from = rows.at[o.value] + 2;
      quad->w[o.value][0] = _mm512_xor_si512(QuadBytes::Load2x32(from, from + kStride), sign);
      quad->w[o.value][1] =
          _mm512_xor_si512(QuadBytes::Load2x32(from + 2 * kStride, from + 3 * kStride), sign);
    });
    quad->scales = QuadBytes::Halves<kStride>(rows, 0);
  }
};

template <class Block, int kQuadOffset>
struct QuadOf4Bits {
  static constexpr std::size_t kBytes = 4 * sizeof(Block);
  static constexpr int kGroups = 1, kOffset = kQuadOffset;
  static constexpr bool kMinimums = kQuadOffset == 0, kHalves = false;
  static constexpr QuadOrder kOrder = QuadOrder::kQuarters;
  using State = NoState;
  static KVD_ALWAYS_INLINE State Open(const WeightRows&) { return {}; }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State&, const WeightRows& rows, Quad* quad) {
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      const I bytes = QuadBytes::Load4x16<sizeof(Block)>(rows.at[o.value] + offsetof(Block, qs));
      quad->w[o.value][0] = QuadBytes::Low(bytes);
      quad->w[o.value][1] = QuadBytes::High(bytes);
    });
    quad->scales = QuadBytes::Halves<sizeof(Block)>(rows, 0);
    if constexpr (kMinimums) quad->minimums = QuadBytes::Halves<sizeof(Block)>(rows, 2);
  }
};
using QuadQ4_0 = QuadOf4Bits<BlockQ4_0, 8>;
using QuadQ4_1 = QuadOf4Bits<BlockQ4_1, 0>;

template <class Block, int kQuadOffset>
struct QuadOf5Bits : QuadOf4Bits<Block, kQuadOffset> {
  using Base = QuadOf4Bits<Block, kQuadOffset>;
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const NoState& state, const WeightRows& rows, Quad* quad) {
    Base::template Group<kGroup>(state, rows, quad);
    const I sixteen = _mm512_set1_epi8(16);
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      StaticFor<2>([&](auto half) KVD_INLINE_LAMBDA {
        const std::uint8_t* from = rows.at[o.value] + offsetof(Block, qh) + 2 * half.value;
        const std::uint64_t bits = Fields::Half(from) | Fields::Half(from + sizeof(Block)) << 16 |
                                   Fields::Half(from + 2 * sizeof(Block)) << 32 |
                                   Fields::Half(from + 3 * sizeof(Block)) << 48;
        I& w = quad->w[o.value][half.value];
        w = _mm512_mask_add_epi8(w, bits, w, sixteen);
      });
    });
  }
};
using QuadQ5_0 = QuadOf5Bits<BlockQ5_0, 16>;
using QuadQ5_1 = QuadOf5Bits<BlockQ5_1, 0>;

// Scales and minimums of a group of a q4_K or q5_K block.
template <int kGroup>
KVD_ALWAYS_INLINE void PutParts(const Fields::Parts& parts, Quad* quad) {
  const auto times = [](__m128i bytes, __m128 d) KVD_INLINE_LAMBDA {
    return Lanes::Mul(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)), QuadBytes::Everywhere(d));
  };
  quad->scales = times(parts.scales[kGroup], parts.d);
  quad->minimums = times(parts.minimums[kGroup], parts.dmin);
}

struct QuadQ4_K {
  static constexpr std::size_t kBytes = sizeof(BlockQ4_K);
  static constexpr int kGroups = 2, kOffset = 0;
  static constexpr bool kMinimums = true, kHalves = false;
  static constexpr QuadOrder kOrder = QuadOrder::kEvenOdd;
  using State = Fields::Parts;
  static KVD_ALWAYS_INLINE State Open(const WeightRows& rows) { return Fields::PartsOf(rows); }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State& state, const WeightRows& rows, Quad* quad) {
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      const I bytes = _mm512_loadu_si512(rows.at[o.value] + offsetof(BlockQ4_K, qs) + 64 * kGroup);
      quad->w[o.value][0] = QuadBytes::Low(bytes);
      quad->w[o.value][1] = QuadBytes::High(bytes);
    });
    PutParts<kGroup>(state, quad);
  }
};

struct QuadQ5_K {
  static constexpr std::size_t kBytes = sizeof(BlockQ5_K);
  static constexpr int kGroups = 2, kOffset = 0;
  static constexpr bool kMinimums = true, kHalves = false;
  static constexpr QuadOrder kOrder = QuadOrder::kEvenOdd;
  using State = Fields::Parts;
  static KVD_ALWAYS_INLINE State Open(const WeightRows& rows) { return Fields::PartsOf(rows); }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State& state, const WeightRows& rows, Quad* quad) {
    const auto bits = [](int first, int second) KVD_INLINE_LAMBDA {
      return _mm512_inserti64x4(_mm512_set1_epi8(static_cast<char>(1u << first)),
                                _mm256_set1_epi8(static_cast<char>(1u << second)), 1);
    };
    const I even = bits(4 * kGroup, 4 * kGroup + 2), odd = bits(4 * kGroup + 1, 4 * kGroup + 3);
    const I sixteen = _mm512_set1_epi8(16);
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      const std::uint8_t* block = rows.at[o.value];
      const I bytes = _mm512_loadu_si512(block + offsetof(BlockQ5_K, qs) + 64 * kGroup);
      const I fifths = _mm512_broadcast_i64x4(Bytes::Load32(block + offsetof(BlockQ5_K, qh)));
      const I low = QuadBytes::Low(bytes), high = QuadBytes::High(bytes);
      quad->w[o.value][0] =
          _mm512_mask_add_epi8(low, _mm512_test_epi8_mask(fifths, even), low, sixteen);
      quad->w[o.value][1] =
          _mm512_mask_add_epi8(high, _mm512_test_epi8_mask(fifths, odd), high, sixteen);
    });
    PutParts<kGroup>(state, quad);
  }
};

struct QuadQ6_K {
  static constexpr std::size_t kBytes = sizeof(BlockQ6_K);
  static constexpr int kGroups = 2, kOffset = 32;
  static constexpr bool kMinimums = false, kHalves = true;
  static constexpr QuadOrder kOrder = QuadOrder::kPairs;
  struct State {
    __m128 d;  // [row]
  };
  static KVD_ALWAYS_INLINE State Open(const WeightRows& rows) {
    return {Fields::HalfOfEach(rows, offsetof(BlockQ6_K, d))};
  }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State& state, const WeightRows& rows, Quad* quad) {
    const I two = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(2), 1);
    const I left = _mm512_sub_epi16(_mm512_set1_epi16(4), two);
    const I mask = _mm512_set1_epi8(48);
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      const std::uint8_t* block = rows.at[o.value];
      const I ql = _mm512_loadu_si512(block + 64 * kGroup);
      const I qh =
          _mm512_broadcast_i64x4(Bytes::Load32(block + offsetof(BlockQ6_K, qh) + 32 * kGroup));
      // (qh & mask) | ql in one operation
      quad->w[o.value][0] =
          _mm512_ternarylogic_epi32(_mm512_sllv_epi16(qh, left), mask, QuadBytes::Low(ql), 0xea);
      quad->w[o.value][1] =
          _mm512_ternarylogic_epi32(_mm512_srlv_epi16(qh, two), mask, QuadBytes::High(ql), 0xea);
    });
    const Fields::HalfScales parts =
        Fields::HalfScalesOf(rows, offsetof(BlockQ6_K, scales) + 8 * kGroup);
    quad->parts[0] = _mm512_cvtepi8_epi32(parts.first);
    quad->parts[1] = _mm512_cvtepi8_epi32(parts.second);
    quad->scales = QuadBytes::Everywhere(state.d);
  }
};

// Integer sums of products.
struct Sums {
  // A row of x in the order of a quad's elements.
  struct X {
    I q[2];
  };
  template <class Q>
  static KVD_ALWAYS_INLINE X LoadX(const std::int8_t* q) {
    const I a = _mm512_loadu_si512(q), b = _mm512_loadu_si512(q + 64);
    if constexpr (Q::kOrder == QuadOrder::kPairs) return {{a, b}};
    if constexpr (Q::kOrder == QuadOrder::kEvenOdd) {
      return {{_mm512_shuffle_i64x2(a, b, 0x44), _mm512_shuffle_i64x2(a, b, 0xee)}};
    }
    return {{_mm512_shuffle_i64x2(a, b, 0x88), _mm512_shuffle_i64x2(a, b, 0xdd)}};
  }

  // float(S) of a quad's blocks with blocks b.. of x.
  template <class Q>
  static KVD_ALWAYS_INLINE V Of(const Quad& quad, const QuantizedRow& row, std::size_t b) {
    const X x = LoadX<Q>(row.q + kQuantizedBlock * b);
    if constexpr (Q::kHalves) {
      I first[4], second[4];
      StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
        const I p = Dot(quad.w[o.value][0], x.q[0]), q = Dot(quad.w[o.value][1], x.q[1]);
        first[o.value] = _mm512_shuffle_i32x4(p, q, 0x88);
        second[o.value] = _mm512_shuffle_i32x4(p, q, 0xdd);
      });
      const I sums = Expanded(row.sums + b), halves = Expanded(row.half_sums + b);
      const I s = LessOffset<Q::kOffset>(Joined(first), halves);
      const I t = LessOffset<Q::kOffset>(Joined(second), _mm512_sub_epi32(sums, halves));
      return _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_mullo_epi32(s, quad.parts[0]),
                                                 _mm512_mullo_epi32(t, quad.parts[1])));
    }
    I parts[4];
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      const I p = Dot(quad.w[o.value][0], x.q[0]);
      if constexpr (Q::kOrder == QuadOrder::kQuarters) {
        parts[o.value] = _mm512_dpbusd_epi32(p, quad.w[o.value][1], x.q[1]);
      } else {
        const I q = Dot(quad.w[o.value][1], x.q[1]);
        parts[o.value] =
            _mm512_add_epi32(_mm512_shuffle_i32x4(p, q, 0x88), _mm512_shuffle_i32x4(p, q, 0xdd));
      }
    });
    I sums = Joined(parts);
    if constexpr (Q::kOrder == QuadOrder::kEvenOdd) sums = _mm512_shuffle_i32x4(sums, sums, 0xd8);
    if constexpr (Q::kOffset != 0) sums = LessOffset<Q::kOffset>(sums, Expanded(row.sums + b));
    return _mm512_cvtepi32_ps(sums);
  }

  // Four numbers, one per block, for the lanes of a quad.
  static KVD_ALWAYS_INLINE V Expanded(const float* from) {
    return _mm512_castsi512_ps(Expanded(reinterpret_cast<const std::int32_t*>(from)));
  }
  static KVD_ALWAYS_INLINE I Expanded(const std::int32_t* from) {
    const I lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return _mm512_permutexvar_epi32(lanes, _mm512_castsi128_si512(Bytes::Load16(from)));
  }

 private:
  static KVD_ALWAYS_INLINE I Dot(I w, I x) {
    return _mm512_dpbusd_epi32(_mm512_setzero_si512(), w, x);
  }
  template <int kOffset>
  static KVD_ALWAYS_INLINE I LessOffset(I sums, I of_x) {
    static_assert((kOffset & (kOffset - 1)) == 0);
    return _mm512_sub_epi32(sums, _mm512_slli_epi32(of_x, __builtin_ctz(kOffset)));
  }
  // Four lanes of each block per row, to one lane per block and row.
  static KVD_ALWAYS_INLINE I Joined(const I (&of_row)[4]) {
    const I a = _mm512_add_epi32(_mm512_unpacklo_epi32(of_row[0], of_row[1]),
                                 _mm512_unpackhi_epi32(of_row[0], of_row[1]));
    const I b = _mm512_add_epi32(_mm512_unpacklo_epi32(of_row[2], of_row[3]),
                                 _mm512_unpackhi_epi32(of_row[2], of_row[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
  }
};

// The list that dispatch by type goes through (kernels/lanes/dispatch.h).
struct QuadTypes {
  using Lanes = avx512::Lanes;
  using Quad = avx512::Quad;
  using Sums = avx512::Sums;
  using QuadsQ4_0 = QuadQ4_0;
  using QuadsQ4_1 = QuadQ4_1;
  using QuadsQ5_0 = QuadQ5_0;
  using QuadsQ5_1 = QuadQ5_1;
  using QuadsQ8_0 = QuadQ8_0;
  using QuadsQ4_K = QuadQ4_K;
  using QuadsQ5_K = QuadQ5_K;
  using QuadsQ6_K = QuadQ6_K;
  static constexpr int kQuantTileRows = 8;
};

}  // namespace kvd::kernels::avx512
