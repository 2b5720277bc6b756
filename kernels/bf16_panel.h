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
#pragma once

#include <cstddef>

namespace kvd::kernels {

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
