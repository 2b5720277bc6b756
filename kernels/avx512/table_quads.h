// Readers (kernels/avx512/quads.h) of the weight types whose nibbles are indices into a table of
// sixteen integers (iq4_nl, iq4_xs, mxfp4), for AVX-512. A byte shuffle looks the integers up in
// registers.
#pragma once

#include "kernels/avx512/quads.h"

namespace kvd::kernels::avx512 {

// Sixteen bytes at `at` of each row, whose low halves are elements 0..15 of a block.
template <const std::int8_t (&kValues)[16]>
KVD_ALWAYS_INLINE void LookUp(const WeightRows& rows, std::size_t at, I (&w)[2]) {
  const I table = _mm512_broadcast_i32x4(NibbleTable<Lanes, kValues>::Plus(128));
  const I bytes = QuadBytes::FromEach(rows, at);
  w[0] = _mm512_shuffle_epi8(table, QuadBytes::Low(bytes));
  w[1] = _mm512_shuffle_epi8(table, QuadBytes::High(bytes));
}

template <class Block, const std::int8_t (&kValues)[16]>
struct QuadOfTable {
  static constexpr std::size_t kBytes = 4 * sizeof(Block);
  static constexpr int kGroups = 1, kOffset = 128;
  static constexpr bool kMinimums = false, kHalves = false;
  using State = NoState;
  static KVD_ALWAYS_INLINE State Open(const WeightRows&) { return {}; }
  static KVD_ALWAYS_INLINE void PutElements(const WeightRows& rows, Quad* quad) {
    StaticFor<4>([&](auto b) KVD_INLINE_LAMBDA {
      LookUp<kValues>(rows, sizeof(Block) * b.value + offsetof(Block, qs), quad->w[b.value]);
    });
  }
};

struct QuadIQ4_NL : QuadOfTable<BlockIQ4_NL, kIQ4Values> {
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State&, const WeightRows& rows, Quad* quad) {
    PutElements(rows, quad);
    quad->scales = QuadBytes::Halves<sizeof(BlockIQ4_NL)>(rows, 0);
  }
};

struct QuadMXFP4 : QuadOfTable<BlockMXFP4, kMXFP4Values> {
  using RepeatsRow = void;
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State&, const WeightRows& rows, Quad* quad) {
    PutElements(rows, quad);
    const I e = _mm512_cvtepu8_epi32(Fields::BytesOfBlocks<sizeof(BlockMXFP4)>(rows, 0));
    // The bits of 2^(e - 128) as f32 are (e - 1) << 23; for e < 2 the number is subnormal.
    const I one = _mm512_set1_epi32(1);
    const I normal = _mm512_slli_epi32(_mm512_sub_epi32(e, one), 23);
    const I least = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), _mm512_min_epi32(e, one));
    quad->scales = _mm512_castsi512_ps(_mm512_max_epi32(normal, least));
  }
};

struct QuadIQ4_XS {
  static constexpr std::size_t kBytes = sizeof(BlockIQ4_XS);
  static constexpr int kGroups = 2, kOffset = 128;
  static constexpr bool kMinimums = false, kHalves = false;
  using RepeatsRow = void;
  struct State {
    __m128 d;  // [row]
  };
  static KVD_ALWAYS_INLINE State Open(const WeightRows& rows) {
    return {Fields::HalfOfEach(rows, offsetof(BlockIQ4_XS, d))};
  }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State& state, const WeightRows& rows, Quad* quad) {
    StaticFor<4>([&](auto b) KVD_INLINE_LAMBDA {
      LookUp<kIQ4Values>(rows, offsetof(BlockIQ4_XS, qs) + 64 * kGroup + 16 * b.value,
                         quad->w[b.value]);
    });
    quad->scales = PartsTimes(Fields::ScalesOfIQ4_XS<kGroup>(rows), state.d);
  }
};

}  // namespace kvd::kernels::avx512
