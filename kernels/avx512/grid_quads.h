// Readers (kernels/avx512/quads.h) of the weight types of kernels/quant_grids.h for AVX-512. Plain
// code unpacks the blocks of the grid types to memory.
#pragma once

#include "kernels/avx512/quads.h"
#include "kernels/quant_grids.h"

namespace kvd::kernels::avx512 {

template <DataType kType, class Block>
struct QuadInGrid {
  static constexpr std::size_t kBytes = sizeof(Block);
  static constexpr int kGroups = 2, kOffset = 128;
  static constexpr bool kMinimums = false, kHalves = true;
  struct State {
    GridBlock blocks[4];  // [row]
  };
  static KVD_ALWAYS_INLINE State Open(const WeightRows& rows) {
    State state;
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      UnpackGridBlock(kType, rows.at[o.value], &state.blocks[o.value]);
    });
    return state;
  }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State& state, const WeightRows&, Quad* quad) {
    WeightRows blocks;
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      blocks.at[o.value] = reinterpret_cast<const std::uint8_t*>(&state.blocks[o.value]);
    });
    const I sign = _mm512_set1_epi8(-128);
    StaticFor<4>([&](auto b) KVD_INLINE_LAMBDA {
      I(&w)[2] = quad->w[b.value];
      QuadBytes::FromEach(blocks, offsetof(GridBlock, q) + 128 * kGroup + 32 * b.value, w);
      w[0] = _mm512_xor_si512(w[0], sign);
      w[1] = _mm512_xor_si512(w[1], sign);
    });
    const Fields::HalfBytes parts =
        Fields::HalfScalesOf(blocks, offsetof(GridBlock, half_scales) + 8 * kGroup);
    quad->parts[0] = _mm512_cvtepi8_epi32(parts.first);
    quad->parts[1] = _mm512_cvtepi8_epi32(parts.second);
    quad->scales =
        QuadBytes::Everywhere(_mm_castsi128_ps(Fields::Words(blocks, offsetof(GridBlock, scale))));
  }
};

}  // namespace kvd::kernels::avx512
