// kernels/lanes/matmul.h for AVX2.
#include "kernels/lanes/matmul.h"

#include "kernels/avx2/decoders.h"
#include "kernels/avx2/functions.h"

namespace kvd::kernels::avx2 {

void Matmul(const MatmulArgs& args) { MatmulWith<Isa>(args); }

}  // namespace kvd::kernels::avx2
