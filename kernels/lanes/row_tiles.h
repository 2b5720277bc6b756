// Divides the rows of x into tiles whose number of rows is a constant of the code.
#pragma once

#include <cstddef>

#include "kernels/lanes/static_for.h"

namespace kvd::kernels {

// Calls body(Int<rows of the tile>{}, index of the tile, first row) for each tile of at most
// kTileRows rows, in order. The tiles have about equal heights, so that every tile has enough rows
// to fill the pipelines. `body` is a lambda marked always_inline.
template <class Lanes, int kTileRows, class F>
KVD_ALWAYS_INLINE void ForRowTiles(std::size_t row_count, const F& body) {
  const std::size_t tile_count = (row_count + kTileRows - 1) / kTileRows;
  for (std::size_t t = 0; t < tile_count; ++t) {
    const std::size_t row = row_count * t / tile_count;
    const std::size_t rows = row_count * (t + 1) / tile_count - row;
    StaticFor<kTileRows>([&](auto r) KVD_INLINE_LAMBDA {
      constexpr int kRows = decltype(r)::value + 1;
      if (rows == kRows) body(Int<kRows>{}, t, row);
    });
  }
}

}  // namespace kvd::kernels
