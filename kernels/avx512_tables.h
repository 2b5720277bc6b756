// The tables that need AVX-512. They are null in a build without them (KVD_NATIVE_KERNELS), which
// runs only on machines that lack AVX-512.
#pragma once

#include "kernels/kernel_table.h"

namespace kvd::kernels {

// The avx512 table. `bf16`: with products of bf16, which need AVX512_BF16.
const KernelTable* TheAvx512Table(bool bf16);

// The amx table, which needs AVX512_BF16 and tiles.
const KernelTable* TheAmxTable();

}  // namespace kvd::kernels
