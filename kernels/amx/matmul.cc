// Matmul with the tile instructions: products of many rows with quantised weights, and of any
// number of rows with f16 and bf16 weights in bf16. avx512bf16::Matmul computes the other products.
#include "kernels/amx/bf16_product.h"
#include "kernels/amx/functions.h"
#include "kernels/amx/tile_product.h"
#include "kernels/avx512bf16/functions.h"

namespace kvd::kernels::amx {
namespace {

// With fewer than kQuantRowsMin rows, products with quantised weights do not use tiles, because
// most of a tile would be empty.
constexpr std::size_t kQuantRowsMin = 12;

bool MatmulInTiles(const MatmulArgs& args) {
  if (args.row_count == 0 || args.first_out >= args.last_out) return false;
  return (args.row_count >= kQuantRowsMin && TileMatmulOfType(args)) || HalfTileMatmulOfType(args);
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
