// Sums of products of pairs of bf16 through tiles: up to 32 rows times 32 columns at a time, the sums in
// four tiles over all steps of 32 elements.
//
// The order of a sum is the instruction's: in each step the even and the odd elements apart, from 0 on,
// ascending, by fused multiply-adds; then these two added; then that to what the steps before gave. It
// depends on neither the other rows nor the other columns.
#pragma once

#include "kernels/amx/tiles.h"

namespace kvd::kernels::amx {

struct PairProducts {
  const std::uint8_t* rows[2];  // of each sixteen rows the first; 64 bytes of a row are a step
  std::size_t row_stride;
  const std::uint8_t* columns[2];  // of each sixteen columns the first pair
  std::size_t column_stride;       // bytes from one pair to the next
  std::size_t step_bytes;          // and from one step to the next
  std::size_t step_count;

  // Shapes of tiles: row_count rows of each sixteen (0: there is none), steps of pair_count pairs.
  static KVD_ALWAYS_INLINE void Configure(std::size_t first_rows, std::size_t second_rows,
                                          std::size_t pair_count) {
    TileShapes shapes;
    for (int i = 0; i < 2; ++i) {
      const std::size_t row_count = i == 0 ? first_rows : second_rows;
      shapes.Set(kColumns + i, pair_count, kTileRowBytes);
      if (row_count == 0) continue;
      shapes.Set(kRows + i, row_count, 4 * pair_count);
      shapes.Set(kSums + 2 * i, row_count, kTileRowBytes);
      shapes.Set(kSums + 2 * i + 1, row_count, kTileRowBytes);
    }
    Tiles::Configure(shapes);
  }

  // sums: [32][32], row 16 i + r that of rows[i]. Without kTwoRows, kTwoColumns the second sixteen are
  // neither read nor written.
  template <bool kTwoRows, bool kTwoColumns>
  KVD_ALWAYS_INLINE void Sum(float* sums) const {
    ForEach<kTwoRows, kTwoColumns>(
        [](auto i, auto j) KVD_INLINE_LAMBDA { Tiles::Zero<kSums + 2 * i.value + j.value>(); });
    for (std::size_t step = 0; step < step_count; ++step) {
      const std::size_t at = step * step_bytes;
      Tiles::Load<kRows>(rows[0] + step * kTileRowBytes, row_stride);
      Tiles::Load<kColumns>(columns[0] + at, column_stride);
      Tiles::AddHalfProducts<kSums, kRows, kColumns>();
      if constexpr (kTwoColumns) {
        Tiles::Load<kColumns + 1>(columns[1] + at, column_stride);
        Tiles::AddHalfProducts<kSums + 1, kRows, kColumns + 1>();
      }
      if constexpr (kTwoRows) {
        Tiles::Load<kRows + 1>(rows[1] + step * kTileRowBytes, row_stride);
        Tiles::AddHalfProducts<kSums + 2, kRows + 1, kColumns>();
        if constexpr (kTwoColumns) Tiles::AddHalfProducts<kSums + 3, kRows + 1, kColumns + 1>();
      }
    }
    ForEach<kTwoRows, kTwoColumns>([&](auto i, auto j) KVD_INLINE_LAMBDA {
      Tiles::Store<kSums + 2 * i.value + j.value>(sums + (16 * i.value) * 32 + 16 * j.value,
                                                  32 * sizeof(float));
    });
  }

 private:
  static constexpr int kSums = 0, kRows = 4, kColumns = 6;  // tiles: four, two, two

  template <bool kTwoRows, bool kTwoColumns, class F>
  static KVD_ALWAYS_INLINE void ForEach(const F& body) {
    StaticFor<kTwoRows ? 2 : 1>([&](auto i) KVD_INLINE_LAMBDA {
      StaticFor<kTwoColumns ? 2 : 1>([&](auto j) KVD_INLINE_LAMBDA { body(i, j); });
    });
  }
};

}  // namespace kvd::kernels::amx
