// What the avx512 and amx tables do where the machine has AVX512_BF16.
#pragma once

#include "kernels/kernel_table.h"

namespace kvd::kernels::avx512bf16 {

// From so many rows on products in bf16 beat decoding to f32 in registers.
inline constexpr std::size_t kRowsMin = 8;

void Matmul(const MatmulArgs& args);
void RoundRows(const float* x, std::size_t x_stride, std::size_t row_count, std::size_t n,
               void* to);

extern const Bf16Attention kAttention;

}  // namespace kvd::kernels::avx512bf16
