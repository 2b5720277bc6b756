// Declares the functions that the avx512 and amx tables use if the machine has AVX512_BF16.
#pragma once

#include "kernels/kernel_table.h"

namespace kvd::kernels::avx512bf16 {

// The smallest number of rows for which products in bf16 are faster than decoding the weights to
// f32 in registers.
inline constexpr std::size_t kRowsMin = 8;

void Matmul(const MatmulArgs& args);
void RoundRows(const float* x, std::size_t x_stride, std::size_t row_count, std::size_t n,
               void* to);

extern const Bf16Attention kAttention;

}  // namespace kvd::kernels::avx512bf16
