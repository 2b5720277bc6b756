// Replaces select_kernels.cc if only the scalar kernels are built (KVD_SCALAR_KERNELS).
#include <cstring>

#include "kernels/kernel_table.h"
#include "kernels/scalar/functions.h"

namespace kvd::kernels {

const KernelTable* ScalarTable() { return &scalar::kTable; }
const KernelTable* Avx2Table() { return nullptr; }
const KernelTable* Avx512Table() { return nullptr; }
const KernelTable* AmxTable() { return nullptr; }
void AssumeTiles() {}

KernelChoice SelectKernels(const char* name) {
  if (name == nullptr || *name == '\0' || std::strcmp(name, "scalar") == 0) {
    return {ScalarTable(), nullptr};
  }
  return {nullptr, "this build has the scalar table only"};
}

}  // namespace kvd::kernels
