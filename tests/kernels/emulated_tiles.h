// The amx table's product with plain code in place of the tile instructions.
#pragma once

#include "kernels/kernel_table.h"

namespace kvd::kernels {

// As KernelTable::matmul, for quantised weights, a row and an output at least. Needs AVX-512.
void EmulatedTileMatmul(const MatmulArgs& args);

}  // namespace kvd::kernels
