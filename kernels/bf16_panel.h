// How a product in bf16 is cut: rows of x and panels of weights, both rounded to bf16.
//
// A row of x is its elements in bf16, zeros after them up to a multiple of 32. A panel has groups of
// sixteen outputs, one per lane, and in each a vector per pair of elements, up to the same multiple.
//
// Included by files with special -m flags: everything here is inlined always.
#pragma once

#include <cstddef>

namespace kvd::kernels {

[[gnu::always_inline]] constexpr std::size_t Bf16Padded(std::size_t element_count) {
  return (element_count + 31) / 32 * 32;
}
// Of a row of x. A multiple of 64.
[[gnu::always_inline]] constexpr std::size_t Bf16RowBytes(std::size_t element_count) {
  return Bf16Padded(element_count) * 2;
}
// Outputs of a panel: 64 while they take no more than 512 KiB.
[[gnu::always_inline]] constexpr std::size_t Bf16PanelOuts(std::size_t element_count) {
  return Bf16Padded(element_count) <= 4096 ? 64 : 32;
}
// For a panel, or for sixteen rows of x, turned, and 32 outputs. Never less for more elements.
[[gnu::always_inline]] constexpr std::size_t Bf16WorkspaceBytes(std::size_t element_count) {
  const std::size_t n = Bf16Padded(element_count);
  const std::size_t panel = (n < 4096 ? n : 4096) * 2 * 64, rows = n * 2 * (16 + 32);
  return panel > rows ? panel : rows;
}

}  // namespace kvd::kernels
