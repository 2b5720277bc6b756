// Products with f16 and bf16 weights, with both factors rounded to bf16, using bf16 tiles (AMX).
#pragma once

#include "kernels/amx/pair_products.h"
#include "kernels/avx512bf16/round.h"

namespace kvd::kernels::amx {

// Maximum number of rows of x for products without a panel: the unchanged weight rows are then the
// rows of the tiles, and the transposed x are the columns. Products without a panel have the same
// order of sums as products with a panel.
inline constexpr std::size_t kFewRowsMax = kTileRows;

template <class Pairs>
void FewRowsInTiles(const MatmulArgs& args) {
  constexpr std::size_t kAskAhead = 16 * 1024;
  const std::size_t n = Bf16Padded(args.in_features);
  auto* const turned = reinterpret_cast<std::uint8_t*>(args.workspace);
  std::uint8_t* const rows = turned + n / 32 * kTileRows * kTileRowBytes;
  MatmulArgs of_x = args;
  of_x.weights = args.bf16_x;
  of_x.in_features = n;
  avx512::PutHalves<avx512::PairsOfBf16>(of_x, 0, args.row_count, turned);
  for (std::size_t first = args.first_out; first < args.last_out; first += 32) {
    const std::size_t left = args.last_out - first, count = left < 32 ? left : 32;
    const auto* from =
        static_cast<const std::uint8_t*>(args.weights) + 2 * first * args.in_features;
    std::uint8_t* to = rows;
    for (std::size_t o = 0; o < count; ++o, from += 2 * args.in_features) {
      for (std::size_t j = 0; j < args.in_features; j += 32, to += kTileRowBytes) {
        __builtin_prefetch(from + 2 * j + kAskAhead);
        _mm512_storeu_si512(to, Pairs::Load(from + 2 * j, args.in_features - j));
      }
    }
    if (first == args.first_out || count < 32) {
      PairProducts::Configure(count < 16 ? count : 16, count < 16 ? 0 : count - 16, 16);
    }
    const PairProducts products = {.rows = {rows, rows + 16 * 2 * n},
                                   .row_stride = 2 * n,
                                   .columns = {turned, nullptr},
                                   .column_stride = kTileRowBytes,
                                   .step_bytes = kTileRows * kTileRowBytes,
                                   .step_count = n / 32};
    alignas(64) float sums[32][32];
    if (count > 16) {
      products.Sum<true, false>(sums[0]);
    } else {
      products.Sum<false, false>(sums[0]);
    }
    for (std::size_t r = 0; r < args.row_count; ++r) {
      for (std::size_t o = 0; o < count; ++o) args.y[r][first + o] = sums[o][r];
    }
  }
  Tiles::Release();
}

template <class Pairs>
void HalfTileMatmul(const MatmulArgs& args) {
  if (args.row_count <= kFewRowsMax) return FewRowsInTiles<Pairs>(args);
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

// Returns false and does nothing if the weights are not f16 or bf16, or if args.bf16_x is null.
// REQUIRES: at least one row and one output.
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
