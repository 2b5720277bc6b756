// The eight tiles of one thread and what the tile instructions do to them, in plain code after
// Intel's description (Software Developer's Manual, volume 2, and its appendix on tile
// exceptions). Every operation gives null, or what the processor would fault on, with nothing done.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvd::kernels {

class TileUnit {
 public:
  // LDTILECFG of 64 bytes. A row to start at, which only an interrupted load leaves, is refused too.
  const char* Configure(const void* from);
  void Release() { *this = {}; }

  const char* Zero(int tile);
  const char* Load(int tile, const void* from, std::size_t stride);
  const char* Store(int tile, void* to, std::size_t stride) const;
  // TDPBSSD: sums[m][n] += rows[m][4 k + i] * columns[k][4 n + i], signed, modulo 2^32.
  const char* AddProducts(int sums, int rows, int columns);
  // TDPBF16PS: of pairs of bf16, the even and the odd elements summed apart from 0, k ascending, by
  // fused multiply-add, then added to each other and to the sum; to nearest even, subnormals taken
  // and left as zeros.
  const char* AddHalfProducts(int sums, int rows, int columns);

 private:
  static constexpr std::size_t kTiles = 8, kRows = 16, kRowBytes = 64;

  struct Shape {
    std::size_t rows = 0;  // 0: not configured
    std::size_t row_bytes = 0;
  };

  const char* Check(int tile) const;
  const char* CheckProduct(int sums, int rows, int columns) const;

  bool is_configured_ = false;
  Shape shapes_[kTiles];
  // Zero beyond a tile's shape.
  alignas(64) std::uint8_t bytes_[kTiles][kRows][kRowBytes] = {};
};

}  // namespace kvd::kernels
