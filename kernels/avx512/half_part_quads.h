// Readers (kernels/avx512/quads.h) of q2_K and q3_K weights, whose half blocks of 16 elements have
// their own scales, for AVX-512.
//
// The product of an element and the integer scale of its half block fits a byte. A register has
// half a block of four rows, so the table of products of each row lies in the row's 128-bit lane,
// and a byte shuffle looks the products up. Products with x then need no multiplication by the
// scales of halves.
#pragma once

#include "kernels/avx512/quads.h"

namespace kvd::kernels::avx512 {

struct HalfParts {
  // (v & mask) | bits in one operation.
  static KVD_ALWAYS_INLINE I Masked(I v, int mask, I bits) {
    return _mm512_ternarylogic_epi32(v, _mm512_set1_epi8(static_cast<char>(mask)), bits, 0xea);
  }
  static KVD_ALWAYS_INLINE I Everywhere(int bits) {
    return _mm512_set1_epi8(static_cast<char>(bits));
  }
  // Bytes 0..7 or 8..15 of each lane, of a and b in turn.
  template <int kGroup>
  static KVD_ALWAYS_INLINE I Interleaved(I a, I b) {
    return kGroup == 0 ? _mm512_unpacklo_epi8(a, b) : _mm512_unpackhi_epi8(a, b);
  }
};

struct QuadQ2_K {
  static constexpr std::size_t kBytes = sizeof(BlockQ2_K);
  static constexpr int kGroups = 2, kOffset = 0;
  static constexpr bool kMinimums = true, kHalves = false;
  using HalfMinimums = void;
  struct State {
    I scales;    // of the sixteen half parts of each row
    I minimums;  // the same
    Fields::Factors factors;
  };
  static KVD_ALWAYS_INLINE State Open(const WeightRows& rows) {
    const I both = QuadBytes::FromEach(rows, offsetof(BlockQ2_K, scales));
    return {QuadBytes::Low(both), QuadBytes::High(both),
            Fields::FactorsOf(rows, offsetof(BlockQ2_K, d))};
  }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State& state, const WeightRows& rows, Quad* quad) {
    // Each half part has four products: 0, 1, 2 and 3 times its scale.
    const I two = _mm512_add_epi8(state.scales, state.scales);
    const I a = HalfParts::Interleaved<kGroup>(_mm512_setzero_si512(), state.scales);
    const I b = HalfParts::Interleaved<kGroup>(two, _mm512_add_epi8(two, state.scales));
    const I tables[2] = {_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b)};
    I qs[2];
    QuadBytes::FromEach(rows, offsetof(BlockQ2_K, qs) + 32 * kGroup, qs);
    StaticFor<4>([&](auto block) KVD_INLINE_LAMBDA {
      StaticFor<2>([&](auto half) KVD_INLINE_LAMBDA {
        constexpr int kPart = 2 * decltype(block)::value + decltype(half)::value;
        const I q = HalfParts::Masked(_mm512_srli_epi16(qs[half.value], 2 * block.value), 3,
                                      HalfParts::Everywhere(4 * (kPart % 4)));
        quad->w[block.value][half.value] = _mm512_shuffle_epi8(tables[kPart / 4], q);
      });
    });
    // A byte of each block, widened.
    const auto of_half = [&](int half) KVD_INLINE_LAMBDA {
      const auto place = [&](int block) KVD_INLINE_LAMBDA {
        return static_cast<int>(0x80808000u | static_cast<unsigned>(8 * kGroup + 2 * block + half));
      };
      const __m128i places = _mm_setr_epi32(place(0), place(1), place(2), place(3));
      return _mm512_shuffle_epi8(state.minimums, _mm512_broadcast_i32x4(places));
    };
    const I first = of_half(0), second = of_half(1);
    const V dmin = QuadBytes::Everywhere(state.factors.dmin);
    quad->scales = QuadBytes::Everywhere(state.factors.d);
    quad->minimums = Lanes::Mul(_mm512_cvtepi32_ps(second), dmin);
    quad->half_minimums = Lanes::Mul(_mm512_cvtepi32_ps(_mm512_sub_epi32(second, first)),
                                     Lanes::Mul(dmin, Lanes::Set(1.0f / 128.0f)));
  }
};

// The bytes are the negated products, -(scale * (q - 4)), because their range is -128 to 124; the
// factor of the sums is negated, too.
struct QuadQ3_K {
  static constexpr std::size_t kBytes = sizeof(BlockQ3_K);
  static constexpr int kGroups = 2, kOffset = 128;
  static constexpr bool kMinimums = false, kHalves = false;
  struct State {
    I products[8];  // [q]: for the half parts of each row, plus 128
    I hmask[2];
    __m128 d;  // negated
  };
  static KVD_ALWAYS_INLINE State Open(const WeightRows& rows) {
    State state;
    // In the block, the twelve bytes of scales follow two other bytes and precede the two bytes of
    // d.
    const I end = QuadBytes::FromEach(rows, offsetof(BlockQ3_K, scales) - 2);
    const __m128i eight = _mm_setr_epi8(2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9);
    const __m128i four =
        _mm_setr_epi8(10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13);
    const I low = _mm512_srlv_epi64(_mm512_shuffle_epi8(end, _mm512_broadcast_i32x4(eight)),
                                    _mm512_broadcast_i32x4(_mm_set_epi64x(4, 0)));
    const I high = _mm512_srlv_epi32(_mm512_shuffle_epi8(end, _mm512_broadcast_i32x4(four)),
                                     _mm512_broadcast_i32x4(_mm_setr_epi32(0, 2, 4, 6)));
    const I top = _mm512_slli_epi16(_mm512_and_si512(high, HalfParts::Everywhere(3)), 4);
    const I scales = _mm512_sub_epi8(HalfParts::Masked(low, 15, top), HalfParts::Everywhere(32));
    state.products[4] = HalfParts::Everywhere(128);
    StaticFor<4>([&](auto i) KVD_INLINE_LAMBDA {
      state.products[3 - i.value] = _mm512_add_epi8(state.products[4 - i.value], scales);
      if constexpr (i.value < 3) {
        state.products[5 + i.value] = _mm512_sub_epi8(state.products[4 + i.value], scales);
      }
    });
    QuadBytes::FromEach(rows, offsetof(BlockQ3_K, hmask), state.hmask);
    state.d = _mm_xor_ps(Fields::HalfOfEach(rows, offsetof(BlockQ3_K, d)), _mm_set1_ps(-0.0f));
    return state;
  }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State& state, const WeightRows& rows, Quad* quad) {
    I pairs[4];  // [q / 2]
    StaticFor<4>([&](auto i) KVD_INLINE_LAMBDA {
      pairs[i.value] = HalfParts::Interleaved<kGroup>(state.products[2 * i.value],
                                                      state.products[2 * i.value + 1]);
    });
    const I a = _mm512_unpacklo_epi16(pairs[0], pairs[1]);
    const I b = _mm512_unpackhi_epi16(pairs[0], pairs[1]);
    const I c = _mm512_unpacklo_epi16(pairs[2], pairs[3]);
    const I d = _mm512_unpackhi_epi16(pairs[2], pairs[3]);
    // The eight products of the first and the second half of each block.
    const I tables[4] = {_mm512_unpacklo_epi32(a, c), _mm512_unpackhi_epi32(a, c),
                         _mm512_unpacklo_epi32(b, d), _mm512_unpackhi_epi32(b, d)};
    I qs[2];
    QuadBytes::FromEach(rows, offsetof(BlockQ3_K, qs) + 32 * kGroup, qs);
    StaticFor<4>([&](auto block) KVD_INLINE_LAMBDA {
      StaticFor<2>([&](auto half) KVD_INLINE_LAMBDA {
        constexpr int kBit = 4 * kGroup + decltype(block)::value;
        const I mask = state.hmask[half.value];
        const I third = kBit < 2 ? _mm512_slli_epi16(mask, kBit < 2 ? 2 - kBit : 0)
                                 : _mm512_srli_epi16(mask, kBit < 2 ? 0 : kBit - 2);
        const I top = HalfParts::Masked(third, 4, HalfParts::Everywhere(8 * half.value));
        const I q = HalfParts::Masked(_mm512_srli_epi16(qs[half.value], 2 * block.value), 3, top);
        quad->w[block.value][half.value] = _mm512_shuffle_epi8(tables[block.value], q);
      });
    });
    quad->scales = QuadBytes::Everywhere(state.d);
  }
};

}  // namespace kvd::kernels::avx512
