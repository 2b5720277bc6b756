// How a product of many rows is divided to fit the caches, and the sizes of its workspace.
//
// A product of many rows decodes a panel of weights to f32 and multiplies every row of x by the
// panel, in tiles of a few rows. The panel has many outputs, because each row of x is read again
// for the next panel of outputs. The number of elements per output is small enough for the panel to
// stay in the second-level cache next to streamed data and to keep a tile's rows of x in the
// first-level cache. Partial sums are kept in the workspace from one panel to the next along the
// elements, which does not change their bits.
#pragma once

#include <cstddef>

namespace kvd::kernels {

inline constexpr std::size_t kPanelOutputs = 64;
inline constexpr std::size_t kPanelElements =
    1024;  // 64 x 1024 floats are 256 KiB; 6 rows of x, 24 KiB
inline constexpr std::size_t kPassRows =
    512;  // rows whose partial sums are kept; for more rows a panel is decoded again
inline constexpr std::size_t kTileRowsMax = 6;  // for every instruction set

// Products of many rows as sums of outer products (OuterDot of kernels/kernel_table.h) have panels
// of other sizes, which leave the second-level cache room for the rows of x. kOuterElements is a
// part of the numeric form.
inline constexpr std::size_t kOuterElements = 512;
inline constexpr std::size_t kOuterOutputs = 128;

// A panel ends at a multiple of every block size and of the sixteen partial sums.
static_assert(kPanelElements % 256 == 0);

}  // namespace kvd::kernels
