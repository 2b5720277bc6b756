// The layout of a product in bf16: rows of x and panels of weights, both rounded to bf16.
//
// A row of x consists of its elements in bf16, followed by zeros up to a multiple of 32 elements. A
// panel consists of groups of sixteen outputs, one output per lane. A group has one vector per pair
// of elements, including the pairs of zeros up to a multiple of 32 elements.
//
// Files with special -m flags include this header, so every function here is always inlined.
#pragma once

#include <cstddef>

namespace kvd::kernels {

[[gnu::always_inline]] constexpr std::size_t Bf16Padded(std::size_t element_count) {
  return (element_count + 31) / 32 * 32;
}
// Bytes of a row of x; a multiple of 64.
[[gnu::always_inline]] constexpr std::size_t Bf16RowBytes(std::size_t element_count) {
  return Bf16Padded(element_count) * 2;
}
// Outputs of a panel: 64 if they take at most 512 KiB, otherwise 32.
[[gnu::always_inline]] constexpr std::size_t Bf16PanelOuts(std::size_t element_count) {
  return Bf16Padded(element_count) <= 4096 ? 64 : 32;
}
// Bytes for a panel, or for sixteen transposed rows of x and 32 outputs. The result never decreases
// with element_count.
[[gnu::always_inline]] constexpr std::size_t Bf16WorkspaceBytes(std::size_t element_count) {
  const std::size_t n = Bf16Padded(element_count);
  const std::size_t panel = (n < 4096 ? n : 4096) * 2 * 64, rows = n * 2 * (16 + 32);
  return panel > rows ? panel : rows;
}

}  // namespace kvd::kernels
