// Unpacks four blocks of each of four weight rows to integers in AVX-512 registers, for products
// with quantised activations (quant_rows.h, quant_panel.h).
//
// A quad is four blocks of each of four rows; in its vectors of sixteen lanes, lane 4 * o + b is
// for block b of row o. The elements are unsigned bytes, w.q + kOffset. A register has half a block
// of the four rows, with 16 bytes of row o in its 128-bit lane o. A product therefore broadcasts 16
// bytes of a row of x to all 128-bit lanes, and sums are formed within these lanes. A reader reads
// one step at a time, which is kGroups quads: the 256 elements of a K block, or four blocks of 32
// elements.
#pragma once

#include "kernels/avx512/decoders.h"
#include "kernels/avx512/lanes.h"
#include "kernels/lanes/quad_fields.h"

namespace kvd::kernels::avx512 {

using Fields = QuadFields<Lanes>;

struct Quad {
  I w[4][2];  // [block][half of the block]
  V scales;
  V minimums;       // if kMinimums
  V half_minimums;  // if kHasHalfMinimums
  I parts[2];       // if kHalves: the integer scales of elements 0..15, and of 16..31
};

struct QuadBytes {
  static KVD_ALWAYS_INLINE I Low(I bytes) { return _mm512_and_si512(bytes, _mm512_set1_epi8(15)); }
  static KVD_ALWAYS_INLINE I High(I bytes) { return Low(_mm512_srli_epi16(bytes, 4)); }
  // Sixteen bytes of each row.
  static KVD_ALWAYS_INLINE I FromEach(const WeightRows& rows, std::size_t at) {
    I v = _mm512_castsi128_si512(Bytes::Load16(rows.at[0] + at));
    v = _mm512_inserti32x4(v, Bytes::Load16(rows.at[1] + at), 1);
    v = _mm512_inserti32x4(v, Bytes::Load16(rows.at[2] + at), 2);
    return _mm512_inserti32x4(v, Bytes::Load16(rows.at[3] + at), 3);
  }
  // Loads thirty-two bytes of each row: halves[0] gets the first sixteen bytes of each row,
  // halves[1] the last sixteen.
  static KVD_ALWAYS_INLINE void FromEach(const WeightRows& rows, std::size_t at, I (&halves)[2]) {
    const auto two = [&](int o) KVD_INLINE_LAMBDA {
      return _mm512_inserti64x4(_mm512_castsi256_si512(Bytes::Load32(rows.at[o] + at)),
                                Bytes::Load32(rows.at[o + 1] + at), 1);
    };
    const I a = two(0), b = two(2);
    halves[0] = _mm512_shuffle_i32x4(a, b, 0x88);
    halves[1] = _mm512_shuffle_i32x4(a, b, 0xdd);
  }
  // The f16 numbers at offset `at` of four blocks of four rows.
  template <std::size_t kStride>
  static KVD_ALWAYS_INLINE V Halves(const WeightRows& rows, std::size_t at) {
    const auto of_row = [&](int o) KVD_INLINE_LAMBDA {
      const std::uint8_t* from = rows.at[o] + at;
      return static_cast<long long>(Fields::Half(from) | Fields::Half(from + kStride) << 16 |
                                    Fields::Half(from + 2 * kStride) << 32 |
                                    Fields::Half(from + 3 * kStride) << 48);
    };
    return _mm512_cvtph_ps(_mm256_setr_epi64x(of_row(0), of_row(1), of_row(2), of_row(3)));
  }
  // One number per row, expanded to the lanes of all its blocks.
  static KVD_ALWAYS_INLINE V Everywhere(__m128 v) {
    const I rows = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return _mm512_permutexvar_ps(rows, _mm512_castps128_ps512(v));
  }
};

struct QuadQ8_0 {
  static constexpr std::size_t kBytes = 4 * sizeof(BlockQ8_0);  // of a step
  static constexpr int kGroups = 1, kOffset = 128;
  static constexpr bool kMinimums = false, kHalves = false;
  using State = NoState;
  static KVD_ALWAYS_INLINE State Open(const WeightRows&) { return {}; }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State&, const WeightRows& rows, Quad* quad) {
    constexpr std::size_t kStride = sizeof(BlockQ8_0);
    const I sign = _mm512_set1_epi8(-128);
    StaticFor<4>([&](auto b) KVD_INLINE_LAMBDA {
      I(&w)[2] = quad->w[b.value];
      QuadBytes::FromEach(rows, kStride * b.value + offsetof(BlockQ8_0, qs), w);
      w[0] = _mm512_xor_si512(w[0], sign);
      w[1] = _mm512_xor_si512(w[1], sign);
    });
    quad->scales = QuadBytes::Halves<kStride>(rows, 0);
  }
};

template <class Block, int kQuadOffset>
struct QuadOf4Bits {
  static constexpr std::size_t kBytes = 4 * sizeof(Block);
  static constexpr int kGroups = 1, kOffset = kQuadOffset;
  static constexpr bool kMinimums = kQuadOffset == 0, kHalves = false;
  using State = NoState;
  static KVD_ALWAYS_INLINE State Open(const WeightRows&) { return {}; }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State&, const WeightRows& rows, Quad* quad) {
    StaticFor<4>([&](auto b) KVD_INLINE_LAMBDA {
      const I bytes = QuadBytes::FromEach(rows, sizeof(Block) * b.value + offsetof(Block, qs));
      quad->w[b.value][0] = QuadBytes::Low(bytes);
      quad->w[b.value][1] = QuadBytes::High(bytes);
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
    StaticFor<4>([&](auto b) KVD_INLINE_LAMBDA {
      StaticFor<2>([&](auto half) KVD_INLINE_LAMBDA {
        const auto fifths = static_cast<std::uint64_t>(Fields::FourHalves(
            rows, sizeof(Block) * b.value + offsetof(Block, qh) + 2 * half.value));
        I& w = quad->w[b.value][half.value];
        w = _mm512_mask_add_epi8(w, fifths, w, sixteen);
      });
    });
  }
};
using QuadQ5_0 = QuadOf5Bits<BlockQ5_0, 16>;
using QuadQ5_1 = QuadOf5Bits<BlockQ5_1, 0>;

// Sixteen signed bytes of [row][block], each multiplied by the factor of its row.
KVD_ALWAYS_INLINE V PartsTimes(__m128i bytes, __m128 d) {
  return Lanes::Mul(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)), QuadBytes::Everywhere(d));
}

// Sets the scales and minimums of a group of a q4_K or q5_K block.
template <int kGroup>
KVD_ALWAYS_INLINE void PutParts(const Fields::Parts& parts, Quad* quad) {
  quad->scales = PartsTimes(parts.scales[kGroup], parts.factors.d);
  quad->minimums = PartsTimes(parts.minimums[kGroup], parts.factors.dmin);
}

struct QuadQ4_K {
  static constexpr std::size_t kBytes = sizeof(BlockQ4_K);
  static constexpr int kGroups = 2, kOffset = 0;
  static constexpr bool kMinimums = true, kHalves = false;
  using State = Fields::Parts;
  static KVD_ALWAYS_INLINE State Open(const WeightRows& rows) { return Fields::PartsOf(rows); }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State& state, const WeightRows& rows, Quad* quad) {
    StaticFor<2>([&](auto two) KVD_INLINE_LAMBDA {
      I bytes[2];
      QuadBytes::FromEach(rows, offsetof(BlockQ4_K, qs) + 64 * kGroup + 32 * two.value, bytes);
      StaticFor<2>([&](auto half) KVD_INLINE_LAMBDA {
        quad->w[2 * two.value][half.value] = QuadBytes::Low(bytes[half.value]);
        quad->w[2 * two.value + 1][half.value] = QuadBytes::High(bytes[half.value]);
      });
    });
    PutParts<kGroup>(state, quad);
  }
};

struct QuadQ5_K {
  static constexpr std::size_t kBytes = sizeof(BlockQ5_K);
  static constexpr int kGroups = 2, kOffset = 0;
  static constexpr bool kMinimums = true, kHalves = false;
  struct State {
    Fields::Parts parts;
    I fifths[2];  // bit p of an element's byte: the element's fifth bit in part p of the eight
  };
  static KVD_ALWAYS_INLINE State Open(const WeightRows& rows) {
    State state = {.parts = Fields::PartsOf(rows), .fifths = {}};
    QuadBytes::FromEach(rows, offsetof(BlockQ5_K, qh), state.fifths);
    return state;
  }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State& state, const WeightRows& rows, Quad* quad) {
    const I sixteen = _mm512_set1_epi8(16);
    StaticFor<2>([&](auto two) KVD_INLINE_LAMBDA {
      I bytes[2];
      QuadBytes::FromEach(rows, offsetof(BlockQ5_K, qs) + 64 * kGroup + 32 * two.value, bytes);
      StaticFor<2>([&](auto half) KVD_INLINE_LAMBDA {
        // Part p's fifth bit becomes bit 4 of the byte.
        const auto with_fifth = [&](I low, auto block) KVD_INLINE_LAMBDA {
          constexpr int kPart = 4 * kGroup + decltype(block)::value;
          const I bits = state.fifths[half.value];
          const I moved = kPart < 4 ? _mm512_slli_epi16(bits, kPart < 4 ? 4 - kPart : 0)
                                    : _mm512_srli_epi16(bits, kPart < 4 ? 0 : kPart - 4);
          return _mm512_ternarylogic_epi32(moved, sixteen, low, 0xea);
        };
        const I low = QuadBytes::Low(bytes[half.value]), high = QuadBytes::High(bytes[half.value]);
        quad->w[2 * two.value][half.value] = with_fifth(low, Int<2 * two.value>{});
        quad->w[2 * two.value + 1][half.value] = with_fifth(high, Int<2 * two.value + 1>{});
      });
    });
    PutParts<kGroup>(state.parts, quad);
  }
};

struct QuadQ6_K {
  static constexpr std::size_t kBytes = sizeof(BlockQ6_K);
  static constexpr int kGroups = 2, kOffset = 32;
  static constexpr bool kMinimums = false, kHalves = true;
  struct State {
    __m128 d;  // [row]
  };
  static KVD_ALWAYS_INLINE State Open(const WeightRows& rows) {
    return {Fields::HalfOfEach(rows, offsetof(BlockQ6_K, d))};
  }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State& state, const WeightRows& rows, Quad* quad) {
    // (high & 48) | low in one operation
    const auto with = [](I high, I low) KVD_INLINE_LAMBDA {
      return _mm512_ternarylogic_epi32(high, _mm512_set1_epi8(48), low, 0xea);
    };
    I qh[2], a[2], b[2];
    QuadBytes::FromEach(rows, offsetof(BlockQ6_K, qh) + 32 * kGroup, qh);
    QuadBytes::FromEach(rows, offsetof(BlockQ6_K, ql) + 64 * kGroup, a);
    QuadBytes::FromEach(rows, offsetof(BlockQ6_K, ql) + 64 * kGroup + 32, b);
    StaticFor<2>([&](auto half) KVD_INLINE_LAMBDA {
      constexpr int kHalf = half.value;
      quad->w[0][kHalf] = with(_mm512_slli_epi16(qh[kHalf], 4), QuadBytes::Low(a[kHalf]));
      quad->w[1][kHalf] = with(_mm512_slli_epi16(qh[kHalf], 2), QuadBytes::Low(b[kHalf]));
      quad->w[2][kHalf] = with(qh[kHalf], QuadBytes::High(a[kHalf]));
      quad->w[3][kHalf] = with(_mm512_srli_epi16(qh[kHalf], 2), QuadBytes::High(b[kHalf]));
    });
    const Fields::HalfBytes parts =
        Fields::HalfScalesOf(rows, offsetof(BlockQ6_K, scales) + 8 * kGroup);
    quad->parts[0] = _mm512_cvtepi8_epi32(parts.first);
    quad->parts[1] = _mm512_cvtepi8_epi32(parts.second);
    quad->scales = QuadBytes::Everywhere(state.d);
  }
};

}  // namespace kvd::kernels::avx512
