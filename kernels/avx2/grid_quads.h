// Readers (kernels/avx2/quads.h) of the weight types of kernels/quant_grids.h for AVX2. Plain code
// unpacks the blocks of the grid types to memory.
#pragma once

#include "kernels/avx2/quads.h"
#include "kernels/quant_grids.h"

namespace kvd::kernels::avx2 {

template <DataType kType, class Block>
struct QuadInGrid {
  static constexpr std::size_t kBytes = sizeof(Block);
  static constexpr int kGroups = 2, kOffset = 0, kBits = 8;
  static constexpr bool kMinimums = false, kHalves = true, kSigned = true;
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
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      StaticFor<4>([&](auto b) KVD_INLINE_LAMBDA {
        quad->w[o.value][b.value] =
            Bytes::Load32(state.blocks[o.value].q + 128 * kGroup + 32 * b.value);
      });
    });
    const Fields::HalfBytes parts =
        Fields::HalfScalesOf(blocks, offsetof(GridBlock, half_scales) + 8 * kGroup);
    quad->parts[0] = Widened(parts.first);
    quad->parts[1] = Widened(parts.second);
    quad->scales =
        QuadBytes::Everywhere(_mm_castsi128_ps(Fields::Words(blocks, offsetof(GridBlock, scale))));
  }
};

}  // namespace kvd::kernels::avx2
