// Products of many rows with quantised, f16 and bf16 weights through the tile instructions; others as
// avx512.
#include "kernels/amx/bf16_product.h"
#include "kernels/amx/functions.h"
#include "kernels/amx/tile_product.h"
#include "kernels/avx512bf16/functions.h"

namespace kvd::kernels::amx {
namespace {

// Fewer rows leave too much of a tile empty.
constexpr std::size_t kRowsMin = 12;

}  // namespace

void Matmul(const MatmulArgs& args) {
  if (args.row_count >= kRowsMin && args.first_out < args.last_out &&
      (TileMatmulOfType(args) || HalfTileMatmulOfType(args))) {
    ForgetHeldShapes();
  } else {
    avx512bf16::Matmul(args);
  }
}

}  // namespace kvd::kernels::amx
