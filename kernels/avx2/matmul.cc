// kernels/lanes/matmul.h and quant_matmul.h for AVX2.
#include "kernels/lanes/matmul.h"

#include "kernels/avx2/decoders.h"
#include "kernels/avx2/functions.h"
#include "kernels/avx2/quads.h"
#include "kernels/avx2/quantize.h"
#include "kernels/lanes/quant_tile.h"
#include "kernels/lanes/quantize.h"

namespace kvd::kernels::avx2 {
namespace {}  // namespace

void Matmul(const MatmulArgs& args) {
  if (args.row_count == 0 || args.first_out >= args.last_out) return;
  WithQuads<QuadTypes>(args.weight_type, [&](auto quads) KVD_INLINE_LAMBDA {
    NarrowQuantMatmul<QuadTypes, decltype(quads)>(args);
  });
  WithPlainDecoder<Isa>(args.weight_type, [&](auto decoder) KVD_INLINE_LAMBDA {
    PlainMatmul<Isa, decltype(decoder)>(args);
  });
}

void QuantizeRows(const float* x, std::size_t x_stride, std::size_t row_count, std::size_t n,
                  void* to) {
  QuantizeRowsWith<BlockQuantizer>(x, x_stride, row_count, n, to);
}

}  // namespace kvd::kernels::avx2
