#include "tests/kernels/emulated_tiles.h"

#include <cstdlib>

#include "kernels/amx/bf16_product.h"
#include "kernels/amx/tile_product.h"

namespace kvd::kernels {
namespace {

// Tiles as the instructions' description has them: shapes from the configuration, rows beyond them
// and bytes beyond them zero, four signed bytes to an integer that wraps. Ends the process where the
// instructions would fault.
class EmulatedTiles {
 public:
  void Configure(std::size_t tail_rows, std::size_t inner_bytes) {
    configured_ = true;
    shapes_[amx::kWeights] = {inner_bytes / 4, 64};
    shapes_[amx::kRowsOf<false>] = {amx::kTileRows, inner_bytes};
    shapes_[amx::kSumsOf<false>] = {amx::kTileRows, 64};
    shapes_[amx::kRowsOf<true>] = {tail_rows, inner_bytes};
    shapes_[amx::kSumsOf<true>] = {tail_rows, 64};
  }
  void ConfigureHalves(std::size_t first_rows, std::size_t second_rows) {
    configured_ = true;
    for (std::size_t i = 0; i < 2; ++i) {
      const std::size_t rows = i == 0 ? first_rows : second_rows;
      for (const std::size_t tile : {2 * i, 2 * i + 1, 4 + i}) shapes_[tile] = {rows, 64};
      shapes_[6 + i] = {16, 64};
    }
  }
  void Release() { configured_ = false; }

  template <int kTile>
  void Zero() {
    Checked(kTile);
    __builtin_memset(bytes_[kTile], 0, sizeof bytes_[kTile]);
  }
  template <int kTile>
  void Load(const void* from, std::size_t stride) {
    const Shape shape = Checked(kTile);
    Zero<kTile>();
    for (std::size_t r = 0; r < shape.rows; ++r) {
      __builtin_memcpy(bytes_[kTile][r], static_cast<const char*>(from) + r * stride,
                       shape.row_bytes);
    }
  }
  template <int kTile>
  void Store(void* to, std::size_t stride) {
    const Shape shape = Checked(kTile);
    for (std::size_t r = 0; r < shape.rows; ++r) {
      __builtin_memcpy(static_cast<char*>(to) + r * stride, bytes_[kTile][r], shape.row_bytes);
    }
  }
  template <int kSums, int kRows, int kWeightTile>
  void AddProducts() {
    const Shape sums = Checked(kSums), rows = Checked(kRows), weights = Checked(kWeightTile);
    if (sums.rows != rows.rows || rows.row_bytes != 4 * weights.rows ||
        sums.row_bytes != weights.row_bytes) {
      std::abort();
    }
    for (std::size_t m = 0; m < sums.rows; ++m) {
      for (std::size_t n = 0; n < sums.row_bytes / 4; ++n) {
        std::uint32_t sum = 0;
        __builtin_memcpy(&sum, bytes_[kSums][m] + 4 * n, 4);
        for (std::size_t k = 0; k < rows.row_bytes; ++k) {
          const auto weight = static_cast<signed char>(bytes_[kWeightTile][k / 4][4 * n + k % 4]);
          sum += static_cast<std::uint32_t>(static_cast<signed char>(bytes_[kRows][m][k]) * weight);
        }
        __builtin_memcpy(bytes_[kSums][m] + 4 * n, &sum, 4);
      }
    }
  }

  // Pairs of bf16; the instruction's rounding is not copied.
  template <int kSums, int kRows, int kWeightTile>
  void AddHalfProducts() {
    const Shape sums = Checked(kSums), rows = Checked(kRows), weights = Checked(kWeightTile);
    if (sums.rows != rows.rows || rows.row_bytes != 4 * weights.rows) std::abort();
    for (std::size_t m = 0; m < sums.rows; ++m) {
      for (std::size_t n = 0; n < 16; ++n) {
        float sum = 0.0f;
        __builtin_memcpy(&sum, bytes_[kSums][m] + 4 * n, 4);
        for (std::size_t k = 0; k < rows.row_bytes / 2; ++k) {
          sum += Half(bytes_[kRows][m] + 2 * k) *
                 Half(bytes_[kWeightTile][k / 2] + 4 * n + 2 * (k % 2));
        }
        __builtin_memcpy(bytes_[kSums][m] + 4 * n, &sum, 4);
      }
    }
  }

 private:
  static float Half(const unsigned char* from) {
    const std::uint32_t bits = std::uint32_t{from[0]} << 16 | std::uint32_t{from[1]} << 24;
    float value = 0.0f;
    __builtin_memcpy(&value, &bits, 4);
    return value;
  }
  struct Shape {
    std::size_t rows = 0;
    std::size_t row_bytes = 0;
  };
  Shape Checked(int tile) const {
    const Shape shape = shapes_[tile];
    if (!configured_ || shape.rows == 0 || shape.rows > 16 || shape.row_bytes > 64) std::abort();
    return shape;
  }

  bool configured_ = false;
  Shape shapes_[8];
  unsigned char bytes_[8][16][64] = {};
};

}  // namespace

void EmulatedTileMatmul(const MatmulArgs& args) {
  if (!amx::TileMatmulOfType<EmulatedTiles>(args)) amx::HalfTileMatmulOfType<EmulatedTiles>(args);
}

}  // namespace kvd::kernels
