// How products of many rows are divided to fit the caches: panels of f32, of quantised weights and
// of bf16.
#pragma once

#include <cstddef>

namespace kvd::kernels {

// How a product of many rows is divided to fit the caches, and the sizes of its workspace.
//
// A product of many rows decodes a panel of weights to f32 and multiplies every row of x by the
// panel, in tiles of a few rows. The panel has many outputs, because each row of x is read again
// for the next panel of outputs. The number of elements per output is small enough for the panel to
// stay in the second-level cache next to streamed data and to keep a tile's rows of x in the
// first-level cache. Partial sums are kept in the workspace from one panel to the next along the
// elements, which does not change their bits.
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

// The layout of a product in bf16: rows of x and panels of weights, both rounded to bf16.
//
// A row of x consists of its elements in bf16, followed by zeros up to a multiple of 32 elements. A
// panel consists of groups of sixteen outputs, one output per lane. A group has one vector per pair
// of elements, including the pairs of zeros up to a multiple of 32 elements.
//
// A product with tiles (kernels/amx/wide_product.h) takes the elements in pieces, and the outputs
// in panels of 32: the panel of one piece stays in the first-level cache, and the sums of a range
// of outputs and the piece of all rows of x stay in the second-level cache.
//
// Files with special -m flags include this header, so every function here is always inlined.
inline constexpr std::size_t kPieceElements = 256;
inline constexpr std::size_t kPiecePanelBytes = kPieceElements * 2 * 32;
inline constexpr std::size_t kRangeOuts = 256;
inline constexpr std::size_t kRangeRows = 512;

[[gnu::always_inline]] constexpr std::size_t Bf16Padded(std::size_t element_count) {
  return (element_count + 31) / 32 * 32;
}
// Bytes from one row of x to the next; a multiple of 64. Long rows are an odd number of cache lines
// apart, because equal places of rows that are a power of two apart would share a few sets of a
// cache.
[[gnu::always_inline]] constexpr std::size_t Bf16RowBytes(std::size_t element_count) {
  const std::size_t bytes = Bf16Padded(element_count) * 2;
  return bytes % 1024 == 0 ? bytes + 64 : bytes;
}
// Outputs of a panel: 64 if they take at most 512 KiB, otherwise 32.
[[gnu::always_inline]] constexpr std::size_t Bf16PanelOuts(std::size_t element_count) {
  return Bf16Padded(element_count) <= 4096 ? 64 : 32;
}
// Bytes for a panel, or for 32 transposed rows of x and two pieces of 32 outputs. The result never
// decreases with element_count.
[[gnu::always_inline]] constexpr std::size_t Bf16WorkspaceBytes(std::size_t element_count) {
  const std::size_t n = Bf16Padded(element_count);
  const std::size_t panel = (n < 4096 ? n : 4096) * 2 * 64,
                    rows = n * 2 * 32 + 2 * kPiecePanelBytes;
  return panel > rows ? panel : rows;
}

// Bytes that a product with tiles needs: a panel, sixteen decoded rows of a piece, and the sums of
// 32 x 32 blocks.
[[gnu::always_inline]] constexpr std::size_t Bf16TileWorkspaceBytes(std::size_t row_count) {
  const std::size_t rows = row_count < kRangeRows ? (row_count + 31) / 32 * 32 : kRangeRows;
  return kPiecePanelBytes + kPiecePanelBytes / 2 + rows * kRangeOuts * sizeof(float);
}

}  // namespace kvd::kernels
