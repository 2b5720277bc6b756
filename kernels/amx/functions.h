// What the amx table does in its own way; the rest of it is the avx512 table.
#pragma once

#include "kernels/kernel_table.h"

namespace kvd::kernels::amx {

void Matmul(const MatmulArgs& args);

}  // namespace kvd::kernels::amx
