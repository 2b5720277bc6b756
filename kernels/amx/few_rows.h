// Products of a few rows of x with f16 and bf16 weights in bf16, using tiles. The unchanged weight
// rows are the rows of the tiles, and the turned rows of x are the columns. The order of sums is
// that of products of many rows (wide_product.h).
#pragma once

#include "kernels/amx/pair_products.h"
#include "kernels/avx512bf16/round.h"

namespace kvd::kernels::amx {

inline constexpr std::size_t kFewRowsMax = kTileRows;

template <class Pairs>
void FewRowsInTiles(const MatmulArgs& args) {
  constexpr std::size_t kAskAhead = 16 * 1024;
  const std::size_t n = Bf16Padded(args.in_features);
  auto* const turned = reinterpret_cast<std::uint8_t*>(args.workspace);
  std::uint8_t* const rows = turned + n / 32 * kTileRows * kTileRowBytes;
  const auto* const x = static_cast<const std::uint8_t*>(args.bf16_x);
  for (std::size_t j = 0; j < n; j += 32) {
    avx512::I pairs[16];
    const auto load = [&](std::size_t r) KVD_INLINE_LAMBDA {
      const std::size_t row = r < args.row_count ? r : args.row_count - 1;
      return _mm512_loadu_si512(x + row * Bf16RowBytes(args.in_features) + 2 * j);
    };
    avx512::TurnPairs(load, pairs);
    StaticFor<16>([&](auto p) KVD_INLINE_LAMBDA {
      _mm512_storeu_si512(turned + (j / 2 + p.value) * kTileRowBytes, pairs[p.value]);
    });
  }
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

}  // namespace kvd::kernels::amx
