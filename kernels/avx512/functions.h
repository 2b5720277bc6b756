// Declares the avx512 table, and those functions of the table that are not templates of
// kernels/lanes.
#pragma once

#include "kernels/kernel_table.h"

namespace kvd::kernels::avx512 {

extern const KernelTable kTable;

void Matmul(const MatmulArgs& args);
void QuantizeRows(const float* x, std::size_t x_stride, std::size_t row_count, std::size_t n,
                  void* to);
bool EncodeRow(DataType type, const float* source, void* destination, std::size_t element_count);

}  // namespace kvd::kernels::avx512
