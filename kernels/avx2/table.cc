#include "kernels/lanes/table.h"

#include "kernels/avx2/decoders.h"
#include "kernels/avx2/functions.h"

namespace kvd::kernels::avx2 {

const KernelTable kTable = LaneTable<Isa>("avx2", Matmul, QuantizeRows, EncodeRow);

}  // namespace kvd::kernels::avx2
