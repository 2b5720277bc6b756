// The amx table's product with plain code in place of the tile instructions.
#pragma once

#include "kernels/kernel_table.h"

namespace kvd::kernels {

// As KernelTable::matmul, for quantised weights, or f16 and bf16 with args.bf16_x; a row and an
// output at least. Needs AVX-512, and AVX512_BF16 for f16 weights.
void EmulatedTileMatmul(const MatmulArgs& args);

}  // namespace kvd::kernels
