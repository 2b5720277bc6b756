#include "kernels/lanes/table.h"

#include "kernels/avx512/decoders.h"
#include "kernels/avx512/functions.h"

namespace kvd::kernels::avx512 {

const KernelTable kTable = LaneTable<Isa>("avx512", Matmul, QuantizeRows, EncodeRow);

}  // namespace kvd::kernels::avx512
