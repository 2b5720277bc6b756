// kernels/lanes/matmul.h for AVX-512.
#include "kernels/lanes/matmul.h"

#include "kernels/avx512/decoders.h"
#include "kernels/avx512/functions.h"

namespace kvd::kernels::avx512 {

void Matmul(const MatmulArgs& args) { MatmulWith<Isa>(args); }

}  // namespace kvd::kernels::avx512
