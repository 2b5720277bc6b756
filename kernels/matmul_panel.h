// How a wide product is cut to the caches, and the workspace that takes.
//
// A product of many rows decodes a panel of weights to f32 and multiplies every row of x by it, in
// tiles of a few rows. The panel has many outputs, since each row of x is read again for the next
// ones, and few enough elements of each to stay in the second-level cache beside what streams by,
// and to keep a tile's rows of x in the first-level cache. Partial sums wait in the workspace from
// one panel to the next along the elements, which changes no bit of them.
#pragma once

#include <cstddef>

namespace kvd::kernels {

inline constexpr std::size_t kPanelOutputs = 64;
inline constexpr std::size_t kPanelElements =
    1024;  // 64 x 1024 floats are 256 KiB; 6 rows of x, 24 KiB
inline constexpr std::size_t kPassRows =
    512;  // rows whose partial sums can wait; for further rows a panel is decoded again
inline constexpr std::size_t kTileRowsMax = 6;  // of any instruction set

// Elements are cut at multiples of every block and of the sixteen partial sums.
static_assert(kPanelElements % 256 == 0);

}  // namespace kvd::kernels
