// Sums of products of pairs of bf16 using tiles: up to 32 rows times 32 columns at a time. The sums
// stay in four tiles during all steps; a step multiplies 32 elements of each row.
//
// The tile instruction determines the order of a sum. In each step, even and odd elements are
// summed separately, from 0, ascending, by fused multiply-adds; these two sums are added; the
// result is added to the sum of the previous steps. The order depends neither on the other rows nor
// on the other columns.
#pragma once

#include "kernels/amx/tiles.h"

namespace kvd::kernels::amx {

// The first row of tile t of row_count rows. If row_count is not a multiple of sixteen, the last
// tile has the last sixteen rows and shares some with the tile before it, so that all tiles of a
// product have one shape. Loading another configuration takes longer than multiplying a few rows.
KVD_ALWAYS_INLINE std::size_t TileRow(std::size_t t, std::size_t row_count) {
  const std::size_t row = t * kTileRows;
  return row_count - row >= kTileRows || row_count < kTileRows ? row : row_count - kTileRows;
}

struct PairProducts {
  const std::uint8_t* rows[2];  // first row of each sixteen rows; a step reads 64 bytes of a row
  std::size_t row_stride;
  const std::uint8_t* columns[2];  // first pair of each sixteen columns
  std::size_t column_stride;       // bytes from one pair to the next
  std::size_t step_bytes;          // bytes of `columns` from one step to the next
  std::size_t step_count;

  // Sets the shapes of the tiles: the rows of the first and of the second sixteen (0: none), and
  // pair_count pairs per step.
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

  // sums: [32][32]; row 16 i + r is for row r of rows[i]. Without kTwoRows or kTwoColumns, the
  // second sixteen rows or columns are neither read nor written. kContinues: adds to `sums`.
  template <bool kTwoRows, bool kTwoColumns, bool kContinues = false>
  KVD_ALWAYS_INLINE void Sum(float* sums) const {
    ForEach<kTwoRows, kTwoColumns>([&](auto i, auto j) KVD_INLINE_LAMBDA {
      constexpr int kTile = kSums + 2 * decltype(i)::value + decltype(j)::value;
      if constexpr (kContinues) {
        Tiles::Load<kTile>(At<decltype(i)::value, decltype(j)::value>(sums), 32 * sizeof(float));
      } else {
        Tiles::Zero<kTile>();
      }
    });
    Add<kTwoRows, kTwoColumns>();
    Finish<kTwoRows, kTwoColumns>(sums);
  }

  // The parts of Sum: sets the tiles of sums to 0, adds the products of the steps, stores the sums.
  template <bool kTwoRows, bool kTwoColumns>
  static KVD_ALWAYS_INLINE void Start() {
    ForEach<kTwoRows, kTwoColumns>([&](auto i, auto j) KVD_INLINE_LAMBDA {
      Tiles::Zero<kSums + 2 * decltype(i)::value + decltype(j)::value>();
    });
  }
  template <bool kTwoRows, bool kTwoColumns>
  KVD_ALWAYS_INLINE void Add() const {
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
  }
  template <bool kTwoRows, bool kTwoColumns>
  static KVD_ALWAYS_INLINE void Finish(float* sums) {
    ForEach<kTwoRows, kTwoColumns>([&](auto i, auto j) KVD_INLINE_LAMBDA {
      Tiles::Store<kSums + 2 * i.value + j.value>(At<i.value, j.value>(sums), 32 * sizeof(float));
    });
  }

 private:
  static constexpr int kSums = 0, kRows = 4, kColumns = 6;  // first tiles of four, two and two

  template <int kRowTile, int kColumnTile>
  static KVD_ALWAYS_INLINE float* At(float* sums) {
    return sums + kRowTile * 16 * 32 + kColumnTile * 16;
  }

  template <bool kTwoRows, bool kTwoColumns, class F>
  static KVD_ALWAYS_INLINE void ForEach(const F& body) {
    StaticFor<kTwoRows ? 2 : 1>([&](auto i) KVD_INLINE_LAMBDA {
      StaticFor<kTwoColumns ? 2 : 1>([&](auto j) KVD_INLINE_LAMBDA { body(i, j); });
    });
  }
};

}  // namespace kvd::kernels::amx
