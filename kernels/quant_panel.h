// How a wide product with quantised weights is cut, and the workspace that takes.
//
// The blocks of a panel of outputs are unpacked to bytes, sixteen outputs interleaved by four
// elements, and all rows of x are multiplied by it in tiles of a few rows. The panel stays in the
// second-level cache; all elements of an output are in it, since sums of blocks end in floats that
// would have to wait for another panel. The numeric form's four partial sums are four runs of
// blocks, one after the other, so that a tile has one sum per row and output.
//
// Included by files with special -m flags: everything here is inlined always.
#pragma once

#include <cstddef>

namespace kvd::kernels {

// Bytes of a block of sixteen outputs at most: scales, two more vectors, the elements.
inline constexpr std::size_t kQuantPanelBlockBytes = 11 * 64;
// Blocks per row up to which a panel has 64 outputs: 64 outputs of 8,192 elements are 576 KiB.
inline constexpr std::size_t kWidePanelBlocks = 256;

// Rows of x up to which a panel has 32 outputs: the weights of the next one come into the cache
// meanwhile.
inline constexpr std::size_t kNarrowPanelRows = 48;

[[gnu::always_inline]] constexpr std::size_t QuantPanelOuts(std::size_t block_count,
                                                            std::size_t row_count) {
  return block_count <= kWidePanelBlocks && row_count > kNarrowPanelRows ? 64 : 32;
}

// Blocks p, p + 4, p + 8, ...
[[gnu::always_inline]] constexpr std::size_t RunBlocks(std::size_t block_count, std::size_t p) {
  return (block_count + 3 - p) / 4;
}

// Never less for more blocks.
[[gnu::always_inline]] constexpr std::size_t QuantPanelBytes(std::size_t block_count) {
  const std::size_t group = kQuantPanelBlockBytes;
  const std::size_t wide =
      (block_count < kWidePanelBlocks ? block_count : kWidePanelBlocks) * group * 4;
  const std::size_t narrow = block_count * group * 2;
  return wide > narrow ? wide : narrow;
}

}  // namespace kvd::kernels
