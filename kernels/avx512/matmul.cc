// Defines Matmul for AVX-512 by the templates of kernels/lanes/matmul.h, quant_rows.h and
// quant_panel.h.
#include "kernels/lanes/matmul.h"

#include "kernels/avx512/decoders.h"
#include "kernels/avx512/functions.h"
#include "kernels/avx512/quad_types.h"
#include "kernels/avx512/quant_panel.h"
#include "kernels/avx512/quant_rows.h"
#include "kernels/avx512/quantize.h"
#include "kernels/lanes/quantize.h"

namespace kvd::kernels::avx512 {
namespace {

// Up to kNarrowQuantRowsMax rows, unpacking the blocks in registers is faster than writing a panel,
// unless the caller has chosen another number.
bool IsNarrow(const MatmulArgs& args) {
  if (args.panel_from_rows == 0) return args.row_count <= kNarrowQuantRowsMax;
  return args.row_count < args.panel_from_rows && args.row_count <= kNarrowQuantRowsMax;
}

}  // namespace

void Matmul(const MatmulArgs& args) {
  if (args.row_count == 0 || args.first_out >= args.last_out) return;
  WithQuads<QuadTypes>(args.weight_type, [&](auto quads) KVD_INLINE_LAMBDA {
    if (IsNarrow(args)) {
      NarrowQuantMatmul<decltype(quads)>(args);
    } else {
      WideQuantMatmul<Panels, decltype(quads)>(args);
    }
  });
  WithPlainDecoder<Isa>(args.weight_type, [&](auto decoder) KVD_INLINE_LAMBDA {
    PlainMatmul<Isa, decltype(decoder)>(args);
  });
}

void QuantizeRows(const float* x, std::size_t x_stride, std::size_t row_count, std::size_t n,
                  void* to) {
  QuantizeRowsWith<BlockQuantizer>(x, x_stride, row_count, n, to);
}

}  // namespace kvd::kernels::avx512
