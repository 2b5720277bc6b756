// A row of activations in the form that products with quantised weights read: int8 in blocks of 32
// elements.
//
// For each block: d = (largest |x|) / 127; q = x * (1 / d) rounded to the nearest integer, halves
// to even (0 if d is below 2^-126); -128 times the sum of all q, -128 times the sum of the first 16
// q, and d * sum. A block with a value that is not finite has d = NaN and q = 0, so that every
// result that uses it is NaN. Rows are padded with zero blocks to a multiple of four blocks, so
// that vectors may read past the end.
//
// One allocation holds all fields: int8 q[32 B], then float d[B], float scaled_sums[B], int32
// starts[B], int32 half_starts[B] for B padded blocks: 48 B bytes, a multiple of 64.
//
// Files with special -m flags include this header, so every function here is always inlined and
// leaves no symbol.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvd::kernels {

inline constexpr std::size_t kQuantizedBlock = 32;
inline constexpr std::uint32_t kQuantizedNan = 0x7fc00000u;  // the bits of d = NaN

struct QuantizedRow {
  const std::int8_t* q;
  const float* scales;              // d
  const float* scaled_sums;         // d * sum
  const std::int32_t* starts;       // -128 * sum: start of a sum of products with weights + 128
  const std::int32_t* half_starts;  // -128 * the sum of elements 0..15
};

[[gnu::always_inline]] constexpr std::size_t PaddedBlocks(std::size_t element_count) {
  return (element_count / kQuantizedBlock + 3) / 4 * 4;
}

// Bytes of a row of element_count elements (a multiple of 32). The result is a multiple of 64.
[[gnu::always_inline]] constexpr std::size_t QuantizedRowBytes(std::size_t element_count) {
  return PaddedBlocks(element_count) * (kQuantizedBlock + 16);
}

// Row `row` of the rows that start at `rows` (64-byte aligned).
[[gnu::always_inline]] inline QuantizedRow QuantizedRowAt(const void* rows,
                                                          std::size_t element_count,
                                                          std::size_t row) {
  const std::size_t blocks = PaddedBlocks(element_count);
  const auto* bytes =
      static_cast<const std::uint8_t*>(rows) + row * QuantizedRowBytes(element_count);
  const auto* tail = bytes + blocks * kQuantizedBlock;
  return {.q = reinterpret_cast<const std::int8_t*>(bytes),
          .scales = reinterpret_cast<const float*>(tail),
          .scaled_sums = reinterpret_cast<const float*>(tail + 4 * blocks),
          .starts = reinterpret_cast<const std::int32_t*>(tail + 8 * blocks),
          .half_starts = reinterpret_cast<const std::int32_t*>(tail + 12 * blocks)};
}

// A QuantizedRow whose fields can be written.
struct MutableQuantizedRow {
  std::int8_t* q;
  float* scales;
  float* scaled_sums;
  std::int32_t* starts;
  std::int32_t* half_starts;
};
[[gnu::always_inline]] inline MutableQuantizedRow MutableQuantizedRowAt(void* rows,
                                                                        std::size_t element_count,
                                                                        std::size_t row) {
  const QuantizedRow at = QuantizedRowAt(rows, element_count, row);
  return {.q = const_cast<std::int8_t*>(at.q),
          .scales = const_cast<float*>(at.scales),
          .scaled_sums = const_cast<float*>(at.scaled_sums),
          .starts = const_cast<std::int32_t*>(at.starts),
          .half_starts = const_cast<std::int32_t*>(at.half_starts)};
}

}  // namespace kvd::kernels
