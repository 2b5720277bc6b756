// Products of many quantised rows of x with panels of unpacked weights (kernels/panels.h), in
// tiles of a few rows of x and two groups of outputs.
//
// Panels has an instruction set's panels: kGroupOuts, the outputs of a group; kBlockBytes<Q>, the
// bytes of a block of a group; kTileRows<Q>, the largest number of rows of a tile; Form<Q>, the
// PanelForm of a reader; Put<Q>(args, out, last_out, group), which writes one group; Tile<Form,
// kRows>(step, ahead).
#pragma once

#include "kernels/lanes/quant_rows.h"
#include "kernels/lanes/weights_ahead.h"
#include "kernels/panels.h"

namespace kvd::kernels {

// The arguments of a tile of kRows rows of x times two groups.
struct QuantWideStep {
  const std::uint8_t* panel;  // two groups
  const QuantizedRow* x;      // [kRows]
  std::size_t block_count;
  float* const* y;  // [kRows]
  std::size_t out;
  std::size_t out_count;  // number of outputs to write, at most those of two groups
};

template <class Panels, class Q>
void WideQuantMatmul(const MatmulArgs& args) {
  constexpr std::size_t kTileRows = Panels::template kTileRows<Q>;
  constexpr std::size_t kGroupOuts = Panels::kGroupOuts, kTileOuts = 2 * kGroupOuts;
  const std::size_t block_count = args.in_features / kQuantizedBlock;
  const std::size_t panel_outs = QuantPanelOuts(block_count, args.row_count, args.panel_outs);
  const std::size_t group_bytes = block_count * Panels::template kBlockBytes<Q>;
  auto* const panel = reinterpret_cast<std::uint8_t*>(args.workspace);
  const std::size_t tile_count = (args.row_count + kTileRows - 1) / kTileRows;
  for (std::size_t first = args.first_out; first < args.last_out; first += panel_outs) {
    const std::size_t left = args.last_out - first;
    const std::size_t last = first + (left < panel_outs ? left : panel_outs);
    const std::size_t group_count = (last - first + kTileOuts - 1) / kTileOuts * 2;
    const std::size_t row_bytes = QuadRowBytes<Q>(args.in_features);
    Ahead ahead(static_cast<const std::uint8_t*>(args.weights) + last * row_bytes,
                panel_outs * row_bytes, group_count / 2 * tile_count * block_count);
    for (std::size_t g = 0; g < group_count; ++g) {
      Panels::template Put<Q>(args, first + kGroupOuts * g, last, panel + g * group_bytes);
    }
    for (std::size_t t = 0; t < tile_count; ++t) {
      const std::size_t row = args.row_count * t / tile_count;
      const std::size_t rows = args.row_count * (t + 1) / tile_count - row;
      QuantizedRow x[kTileRows];
      for (std::size_t r = 0; r < rows; ++r) {
        x[r] = QuantizedRowAt(args.quantized_x, args.in_features, row + r);
      }
      QuantWideStep step = {.panel = panel,
                            .x = x,
                            .block_count = block_count,
                            .y = args.y + row,
                            .out = first,
                            .out_count = kTileOuts};
      for (; step.out < last; step.out += kTileOuts, step.panel += 2 * group_bytes) {
        if (last - step.out < kTileOuts) step.out_count = last - step.out;
        StaticFor<kTileRows>([&](auto r) KVD_INLINE_LAMBDA {
          constexpr int kRows = decltype(r)::value + 1;
          if (rows == kRows) {
            Panels::template Tile<typename Panels::template Form<Q>, kRows>(step, &ahead);
          }
        });
      }
    }
  }
}

}  // namespace kvd::kernels
