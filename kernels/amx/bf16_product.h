// Products of many rows of x with f16 and bf16 weights through bf16 tiles (AMX).
#pragma once

#include "kernels/amx/pair_products.h"
#include "kernels/avx512bf16/round.h"

namespace kvd::kernels::amx {

template <class Pairs>
void HalfTileMatmul(const MatmulArgs& args) {
  const std::size_t n = Bf16Padded(args.in_features), x_stride = Bf16RowBytes(args.in_features);
  const std::size_t panel_outs = Bf16PanelOuts(args.in_features), group_bytes = n * 2 * 16;
  auto* const panel = reinterpret_cast<std::uint8_t*>(args.workspace);
  const auto* const x = static_cast<const std::uint8_t*>(args.bf16_x);
  for (std::size_t first = args.first_out; first < args.last_out; first += panel_outs) {
    const std::size_t left = args.last_out - first;
    const std::size_t last = first + (left < panel_outs ? left : panel_outs);
    const std::size_t group_count = (last - first + 31) / 32 * 2;
    for (std::size_t g = 0; g < group_count; ++g) {
      avx512::PutHalves<Pairs>(args, first + 16 * g, last, panel + g * group_bytes);
    }
    for (std::size_t row = 0; row < args.row_count; row += 32) {
      const std::size_t rows = args.row_count - row < 32 ? args.row_count - row : 32;
      if (row == 0 || rows < 32) {
        PairProducts::Configure(rows < 16 ? rows : 16, rows < 16 ? 0 : rows - 16, 16);
      }
      for (std::size_t out = first; out < last; out += 32) {
        const std::uint8_t* const groups = panel + (out - first) / 16 * group_bytes;
        const std::uint8_t* const from = x + row * x_stride;
        const PairProducts products = {.rows = {from, from + 16 * x_stride},
                                       .row_stride = x_stride,
                                       .columns = {groups, groups + group_bytes},
                                       .column_stride = 64,
                                       .step_bytes = 16 * 64,
                                       .step_count = n / 32};
        alignas(64) float sums[32][32];
        if (rows > 16) {
          products.Sum<true, true>(sums[0]);
        } else {
          products.Sum<false, true>(sums[0]);
        }
        const std::size_t bytes = (last - out < 32 ? last - out : 32) * sizeof(float);
        for (std::size_t r = 0; r < rows; ++r) {
          __builtin_memcpy(args.y[row + r] + out, sums[r], bytes);
        }
      }
    }
  }
  Tiles::Release();
}

// False, with nothing done, for other weights or without args.bf16_x. REQUIRES: a row, an output.
inline bool HalfTileMatmulOfType(const MatmulArgs& args) {
  if (args.bf16_x == nullptr) return false;
  if (args.weight_type == DataType::kBF16) {
    HalfTileMatmul<avx512::PairsOfBf16>(args);
    return true;
  }
  if (args.weight_type == DataType::kF16) {
    HalfTileMatmul<avx512::PairsOfF16<avx512bf16::Round>>(args);
    return true;
  }
  return false;
}

}  // namespace kvd::kernels::amx
