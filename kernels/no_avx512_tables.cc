// Replaces avx512_tables.cc in a build that leaves out the AVX-512 kernels (KVD_NATIVE_KERNELS).
#include "kernels/avx512_tables.h"

namespace kvd::kernels {

const KernelTable* TheAvx512Table(bool) { return nullptr; }
const KernelTable* TheAmxTable() { return nullptr; }

}  // namespace kvd::kernels
