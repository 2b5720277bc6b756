// Defines Matmul for AVX2 by the templates of kernels/lanes/matmul.h, kernels/lanes/quant_tile.h
// and quant_panel.h.
#include "kernels/lanes/matmul.h"

#include "kernels/avx2/decoders.h"
#include "kernels/avx2/functions.h"
#include "kernels/avx2/quad_types.h"
#include "kernels/avx2/quant_panel.h"
#include "kernels/avx2/quantize.h"
#include "kernels/lanes/quant_tile.h"
#include "kernels/lanes/quantize.h"

namespace kvd::kernels::avx2 {
namespace {

// The largest number of rows for which unpacking the blocks in registers is faster than writing a
// panel, unless the caller has chosen another number.
constexpr std::size_t kNarrowQuantRows = 2;

bool IsNarrow(const MatmulArgs& args) {
  if (args.panel_from_rows == 0) return args.row_count <= kNarrowQuantRows;
  return args.row_count < args.panel_from_rows;
}

}  // namespace

void Matmul(const MatmulArgs& args) {
  if (args.row_count == 0 || args.first_out >= args.last_out) return;
  WithQuads<QuadTypes>(args.weight_type, [&](auto quads) KVD_INLINE_LAMBDA {
    if (IsNarrow(args)) {
      NarrowQuantMatmul<QuadTypes, decltype(quads)>(args);
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

}  // namespace kvd::kernels::avx2
