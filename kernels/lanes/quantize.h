// Quantises rows of x to int8 in blocks (kernels/quantized_row.h).
#pragma once

#include "kernels/lanes/static_for.h"
#include "kernels/quantized_row.h"

namespace kvd::kernels {

template <class Quantizer>
KVD_ALWAYS_INLINE void QuantizeRowsWith(const float* x, std::size_t x_stride, std::size_t row_count,
                                        std::size_t n, void* to) {
  const std::size_t block_count = n / kQuantizedBlock;
  for (std::size_t r = 0; r < row_count; ++r) {
    const MutableQuantizedRow row = MutableQuantizedRowAt(to, n, r);
    std::size_t b = 0;
    if constexpr (requires { Quantizer::kTogether; }) {
      constexpr std::size_t kStep = Quantizer::kTogether;
      while (b + kStep <= block_count &&
             Quantizer::PutTogether(x + r * x_stride + kQuantizedBlock * b, b, row)) {
        b += kStep;
      }
    }
    for (; b < block_count; ++b) Quantizer::Put(x + r * x_stride + kQuantizedBlock * b, b, row);
    for (; b < PaddedBlocks(n); ++b) {
      __builtin_memset(row.q + kQuantizedBlock * b, 0, kQuantizedBlock);
      row.scales[b] = row.scaled_sums[b] = 0.0f;
      row.starts[b] = row.half_starts[b] = 0;
    }
  }
}

}  // namespace kvd::kernels
