// How a product of many rows with quantised weights is divided, and the sizes of its workspace.
//
// The blocks of a panel of outputs are unpacked to bytes, with sixteen outputs interleaved by four
// elements, and all rows of x are multiplied by the panel in tiles of a few rows. The panel stays
// in the second-level cache. A panel contains all elements of its outputs, because otherwise the
// float sums of blocks would have to be kept until the next panel. The four partial sums of the
// numeric form are computed as four runs of blocks, one after the other, so that a tile needs one
// sum per row and output.
//
// Files with special -m flags include this header, so every function here is always inlined.
#pragma once

#include <cstddef>

namespace kvd::kernels {

// Maximum bytes of one block of sixteen outputs: scales, four more vectors, the elements.
inline constexpr std::size_t kQuantPanelBlockBytes = 13 * 64;
// The largest number of blocks per row for which a panel has 64 outputs; 64 outputs of 8,192
// elements take 576 KiB.
inline constexpr std::size_t kWidePanelBlocks = 256;

// The largest number of rows of x for which a panel has 32 outputs, so that the weights of the next
// panel are loaded into the cache while the panel is multiplied.
inline constexpr std::size_t kNarrowPanelRows = 48;

// wanted: MatmulArgs::panel_outs.
[[gnu::always_inline]] constexpr std::size_t QuantPanelOuts(std::size_t block_count,
                                                            std::size_t row_count,
                                                            std::size_t wanted) {
  if (block_count > kWidePanelBlocks) return 32;
  if (wanted != 0) return wanted < 64 ? 32 : 64;
  return row_count > kNarrowPanelRows ? 64 : 32;
}

// The number of blocks p, p + 4, p + 8, ...
[[gnu::always_inline]] constexpr std::size_t RunBlocks(std::size_t block_count, std::size_t p) {
  return (block_count + 3 - p) / 4;
}

// The number of bytes of a panel; the result never decreases with block_count.
[[gnu::always_inline]] constexpr std::size_t QuantPanelBytes(std::size_t block_count) {
  const std::size_t group = kQuantPanelBlockBytes;
  const std::size_t wide =
      (block_count < kWidePanelBlocks ? block_count : kWidePanelBlocks) * group * 4;
  const std::size_t narrow = block_count * group * 2;
  return wide > narrow ? wide : narrow;
}

}  // namespace kvd::kernels
