// Matmul with the tile instructions: products of rows in bf16 with weights of any type but f32, and
// products of many quantised rows. avx512bf16::Matmul computes the other products.
#include "kernels/amx/few_rows.h"
#include "kernels/amx/functions.h"
#include "kernels/amx/tile_product.h"
#include "kernels/amx/wide_product.h"
#include "kernels/avx512bf16/functions.h"

namespace kvd::kernels::amx {
namespace {

// With fewer than kQuantRowsMin rows, products with quantised weights do not use tiles, because
// most of a tile would be empty.
constexpr std::size_t kQuantRowsMin = 12;

template <class Rows, class Source>
void Bf16MatmulOf(const MatmulArgs& args) {
  if (args.row_count <= kFewRowsMax) {
    FewRowsProduct<Rows>(args).Run();
  } else {
    WideInTiles<Source>(args);
  }
}

template <class Pairs>
void HalfMatmul(const MatmulArgs& args) {
  Bf16MatmulOf<HalfRows<Pairs>, HalfWeights<Pairs>>(args);
}

// Returns false and does nothing for f32 weights. REQUIRES: at least one row and one output.
bool Bf16MatmulOfType(const MatmulArgs& args) {
  if (args.weight_type == DataType::kBF16) {
    HalfMatmul<avx512::PairsOfBf16>(args);
    return true;
  }
  if (args.weight_type == DataType::kF16) {
    HalfMatmul<avx512::PairsOfF16<avx512bf16::Round>>(args);
    return true;
  }
  bool done = false;
  WithDecoder<avx512::Isa>(args.weight_type, [&](auto decoder) KVD_INLINE_LAMBDA {
    using Decoder = decltype(decoder);
    if constexpr (!Decoder::kPlain) {
      Bf16MatmulOf<DecodedRows<Decoder>, DecodedWeights<Decoder>>(args);
      done = true;
    }
  });
  return done;
}

bool MatmulInTiles(const MatmulArgs& args) {
  if (args.row_count == 0 || args.first_out >= args.last_out) return false;
  if (args.bf16_x != nullptr) return Bf16MatmulOfType(args);
  return args.row_count >= kQuantRowsMin && TileMatmulOfType(args);
}

}  // namespace

void Matmul(const MatmulArgs& args) {
  if (MatmulInTiles(args)) {
    ForgetHeldShapes();
  } else {
    avx512bf16::Matmul(args);
  }
}

}  // namespace kvd::kernels::amx
