// TileUnit: emulates the eight tiles of one thread and the tile instructions, as described in
// Intel's Software Developer's Manual, volume 2, and its appendix on tile exceptions. Every
// operation returns null on success. If the processor would fault, the operation changes nothing
// and returns the reason.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvd::kernels {

class TileUnit {
 public:
  // LDTILECFG with the 64 bytes at `from`. A start row other than 0 is also refused; the processor
  // stores one only if a tile load is interrupted.
  const char* Configure(const void* from);
  void Release() { *this = {}; }

  const char* Zero(int tile);
  const char* Load(int tile, const void* from, std::size_t stride);
  const char* Store(int tile, void* to, std::size_t stride) const;
  // TDPBSSD: sums[m][n] += rows[m][4 k + i] * columns[k][4 n + i], signed, modulo 2^32.
  const char* AddProducts(int sums, int rows, int columns);
  // TDPBF16PS: adds the products of pairs of bf16 to each sum. The products of the even elements
  // and those of the odd elements are summed separately, starting at 0, in the order of ascending
  // k, with fused multiply-add. Then the two sums are added to each other and to the old sum.
  // Rounding is to nearest even; subnormal inputs and results are replaced by zeros.
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
  // Bytes outside the shape of a tile are zero.
  alignas(64) std::uint8_t bytes_[kTiles][kRows][kRowBytes] = {};
};

}  // namespace kvd::kernels
