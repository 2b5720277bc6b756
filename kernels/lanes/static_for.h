// Loops that the compiler unrolls before other optimisations, so that arrays of vectors stay in
// registers.
//
// RULE for everything in kernels/lanes: files with special -m flags include it, so each function is
// a template over a type of one instruction set (kvd::kernels::avx2 or avx512). The symbol of each
// function then names the instruction set, so the linker cannot replace a function by a copy that
// was compiled for another instruction set. Code in kernels/lanes uses types of std:: but never
// functions of std::.
#pragma once

#include <cstddef>
#include <utility>

#define KVD_ALWAYS_INLINE inline __attribute__((always_inline))

namespace kvd::kernels {

template <int kValue>
struct Int {
  static constexpr int value = kValue;
};

template <class F, int... kIndices>
KVD_ALWAYS_INLINE void StaticForEach(std::integer_sequence<int, kIndices...>, const F& body) {
  (body(Int<kIndices>{}), ...);
}

// Calls body(Int<0>{}), ..., body(Int<kCount - 1>{}). `body` is a lambda marked always_inline.
template <int kCount, class F>
KVD_ALWAYS_INLINE void StaticFor(const F& body) {
  StaticForEach(std::make_integer_sequence<int, kCount>{}, body);
}

// The attribute for the lambdas passed to StaticFor.
#define KVD_INLINE_LAMBDA __attribute__((always_inline))

// Divides the rows of x into tiles whose number of rows is a constant of the code.

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
