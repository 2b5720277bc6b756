// Products of many rows with quantised weights, and of any with f16 and bf16 weights in bf16, through
// the tile instructions; others as avx512.
#include "kernels/amx/bf16_product.h"
#include "kernels/amx/functions.h"
#include "kernels/amx/tile_product.h"
#include "kernels/avx512bf16/functions.h"

namespace kvd::kernels::amx {
namespace {

// Fewer rows of quantised products leave too much of a tile empty.
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
