// Products of many rows of x with f16 and bf16 weights through bf16 tiles (AMX): 32 rows times 32
// outputs at a time, the sums in four tiles over all elements.
#pragma once

#include "kernels/amx/tiles.h"
#include "kernels/avx512bf16/round.h"

namespace kvd::kernels::amx {

// Sums of (rows i, outputs j) are tile 2 * i + j; rows i tile 4 + i; weights j tile 6 + j.
KVD_ALWAYS_INLINE void ConfigureHalves(std::size_t first_rows, std::size_t second_rows) {
  TileShapes shapes;
  for (int i = 0; i < 2; ++i) {
    const std::size_t rows = i == 0 ? first_rows : second_rows;
    shapes.Set(6 + i, kTileRows, kTileRowBytes);
    if (rows == 0) continue;  // a tile of no rows is left unconfigured
    for (const int tile : {2 * i, 2 * i + 1, 4 + i}) shapes.Set(tile, rows, kTileRowBytes);
  }
  Tiles::Configure(shapes);
}

template <bool kTwo>  // whether the second rows exist
void HalfTile(const std::uint8_t* panel, std::size_t n, const std::uint8_t* x, std::size_t x_stride,
              std::size_t row_count, float* const* y, std::size_t out, std::size_t out_count) {
  const std::size_t group_bytes = n * 2 * 16;
  Tiles::Zero<0>();
  Tiles::Zero<1>();
  if constexpr (kTwo) {
    Tiles::Zero<2>();
    Tiles::Zero<3>();
  }
  for (std::size_t j = 0; j < n; j += 32, panel += 16 * 64) {
    Tiles::Load<4>(x + 2 * j, x_stride);
    Tiles::Load<6>(panel, 64);
    Tiles::AddHalfProducts<0, 4, 6>();
    Tiles::Load<7>(panel + group_bytes, 64);
    Tiles::AddHalfProducts<1, 4, 7>();
    if constexpr (kTwo) {
      Tiles::Load<5>(x + 16 * x_stride + 2 * j, x_stride);
      Tiles::AddHalfProducts<2, 5, 6>();
      Tiles::AddHalfProducts<3, 5, 7>();
    }
  }
  alignas(64) float sums[32][32];
  constexpr std::size_t kStride = sizeof sums[0];
  Tiles::Store<0>(sums[0], kStride);
  Tiles::Store<1>(sums[0] + 16, kStride);
  if constexpr (kTwo) {
    Tiles::Store<2>(sums[16], kStride);
    Tiles::Store<3>(sums[16] + 16, kStride);
  }
  const std::size_t bytes = (out_count < 32 ? out_count : 32) * sizeof(float);
  for (std::size_t r = 0; r < row_count; ++r) __builtin_memcpy(y[r] + out, sums[r], bytes);
}

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
        ConfigureHalves(rows < 16 ? rows : 16, rows < 16 ? 0 : rows - 16);
      }
      for (std::size_t out = first; out < last; out += 32) {
        const std::uint8_t* groups = panel + (out - first) / 16 * group_bytes;
        if (rows > 16) {
          HalfTile<true>(groups, n, x + row * x_stride, x_stride, rows, args.y + row, out,
                         last - out);
        } else {
          HalfTile<false>(groups, n, x + row * x_stride, x_stride, rows, args.y + row, out,
                          last - out);
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
