// Products of one row of x with q6_K weights, for AVX-512 (quant_rows.h).
//
// A register has a block of two weight rows: 32 adjacent bytes of each. The two halves of a block,
// which have their own scales, are therefore in different 128-bit lanes, the bytes need no shuffle
// between lanes after they are loaded, and a broadcast of 32 bytes of x serves both halves. A sum
// of four products is below 2^15 (63 * 128 * 4 at most), so the sums of two blocks are packed to
// 16 bits before they are added.
#pragma once

#include "kernels/avx512/quads.h"

namespace kvd::kernels::avx512 {

// Four blocks of each of four weight rows.
struct PairQuad {
  I w[2][4];    // [rows 0 and 1, rows 2 and 3][block]
  I scales[2];  // integer scales of two rows; lane 8 * o + 4 * h + b: half h of block b of row o
  V d;          // lane 4 * o + b: of row o
};

struct PairsQ6_K {
  struct State {
    V d;
    __m128i scales[4];  // [row]: of all sixteen half blocks
  };
  static KVD_ALWAYS_INLINE State Open(const WeightRows& rows) {
    State state = {.d = QuadBytes::Everywhere(Fields::HalfOfEach(rows, offsetof(BlockQ6_K, d))),
                   .scales = {}};
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      state.scales[o.value] = Bytes::Load16(rows.at[o.value] + offsetof(BlockQ6_K, scales));
    });
    return state;
  }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State& state, const WeightRows& rows, PairQuad* quad) {
    // (high & 48) | low in one operation
    const auto with = [](I high, I low) KVD_INLINE_LAMBDA {
      return _mm512_ternarylogic_epi32(high, _mm512_set1_epi8(48), low, 0xea);
    };
    StaticFor<2>([&](auto pair) KVD_INLINE_LAMBDA {
      const auto both = [&](std::size_t at) KVD_INLINE_LAMBDA {
        return _mm512_inserti64x4(
            _mm512_castsi256_si512(Bytes::Load32(rows.at[2 * pair.value] + at)),
            Bytes::Load32(rows.at[2 * pair.value + 1] + at), 1);
      };
      const I qh = both(offsetof(BlockQ6_K, qh) + 32 * kGroup);
      const I a = both(offsetof(BlockQ6_K, ql) + 64 * kGroup);
      const I b = both(offsetof(BlockQ6_K, ql) + 64 * kGroup + 32);
      I(&w)[4] = quad->w[pair.value];
      w[0] = with(_mm512_slli_epi16(qh, 4), QuadBytes::Low(a));
      w[1] = with(_mm512_slli_epi16(qh, 2), QuadBytes::Low(b));
      w[2] = with(qh, QuadBytes::High(a));
      w[3] = with(_mm512_srli_epi16(qh, 2), QuadBytes::High(b));
      const __m128i& first = state.scales[2 * pair.value];
      const __m128i& second = state.scales[2 * pair.value + 1];
      const __m128i scales =
          kGroup == 0 ? _mm_unpacklo_epi64(first, second) : _mm_unpackhi_epi64(first, second);
      quad->scales[pair.value] = _mm512_cvtepi8_epi32(_mm_shuffle_epi8(
          scales, _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15)));
    });
    quad->d = state.d;
  }
};

// Computes the products of kQuads quads of weights with the same blocks of a row of x.
template <int kQuads>
struct PairProducts {
  const std::uint8_t* x;  // the row (kernels/quantized_row.h)
  std::size_t padded;     // PaddedBlocks
  std::size_t b;          // the first block

  // Of the blocks from b on.
  static KVD_ALWAYS_INLINE PairProducts At(const std::uint8_t* x, std::size_t padded,
                                           std::size_t b) {
    return {x, padded, b};
  }

  // sums[g] += the products with quads[g].
  KVD_ALWAYS_INLINE void Add(const PairQuad (&quads)[kQuads], V (&sums)[kQuads]) const {
    I elements[4];
    StaticFor<4>([&](auto block) KVD_INLINE_LAMBDA {
      elements[block.value] = _mm512_broadcast_i64x4(
          Bytes::Load32(x + kQuantizedBlock * b + kQuantizedBlock * block.value));
    });
    const __m128i of_block = Numbers(2), of_first = Numbers(3);
    const I offsets = _mm512_broadcast_i64x4(
        _mm256_srai_epi32(_mm256_set_m128i(_mm_sub_epi32(of_block, of_first), of_first), 2));
    const V scale = _mm512_castsi512_ps(_mm512_broadcast_i32x4(Numbers(0)));
    StaticFor<kQuads>([&](auto g) KVD_INLINE_LAMBDA {
      const PairQuad& quad = quads[g.value];
      I of_pair[2];
      StaticFor<2>([&](auto pair) KVD_INLINE_LAMBDA {
        const auto of_blocks = [&](auto first) KVD_INLINE_LAMBDA {
          constexpr int kFirst = decltype(first)::value;
          const I(&w)[4] = quad.w[pair.value];
          const I zero = _mm512_setzero_si512();
          const I p = _mm512_dpbusd_epi32(zero, w[kFirst], elements[kFirst]);
          const I q = _mm512_dpbusd_epi32(zero, w[kFirst + 1], elements[kFirst + 1]);
          return _mm512_castsi512_ps(
              _mm512_madd_epi16(_mm512_packs_epi32(p, q), _mm512_set1_epi16(1)));
        };
        const V low = of_blocks(Int<0>{}), high = of_blocks(Int<2>{});
        const I sums_of_halves =
            _mm512_add_epi32(_mm512_castps_si512(_mm512_shuffle_ps(low, high, 0x88)),
                             _mm512_castps_si512(_mm512_shuffle_ps(low, high, 0xdd)));
        of_pair[pair.value] =
            _mm512_mullo_epi32(_mm512_add_epi32(sums_of_halves, offsets), quad.scales[pair.value]);
      });
      const I products = _mm512_add_epi32(_mm512_shuffle_i32x4(of_pair[0], of_pair[1], 0x88),
                                          _mm512_shuffle_i32x4(of_pair[0], of_pair[1], 0xdd));
      sums[g.value] =
          Lanes::Fma(_mm512_cvtepi32_ps(products), Lanes::Mul(quad.d, scale), sums[g.value]);
    });
  }

 private:
  // Numbers of the four blocks. array: 0 scales, 2 starts, 3 half starts.
  KVD_ALWAYS_INLINE __m128i Numbers(std::size_t array) const {
    return Bytes::Load16(x + kQuantizedBlock * padded + sizeof(float) * (array * padded + b));
  }
};

}  // namespace kvd::kernels::avx512
