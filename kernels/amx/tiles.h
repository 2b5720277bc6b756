// The tile instructions (AMX) as inline assembly. The intrinsics of GCC 12 do not accept a template
// argument as tile number and do not tell the compiler that ldtilecfg reads memory.
//
// A tile has up to sixteen rows of up to 64 bytes, `stride` bytes apart in memory. Each thread has
// its own tiles. A thread configures its tiles before their use and releases them afterwards,
// because the kernel takes longer to switch a thread with configured tiles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/lanes/static_for.h"

namespace kvd::kernels::amx {

inline constexpr std::size_t kTileRows = 16, kTileRowBytes = 64;

// LDTILECFG's operand (palette 1).
struct alignas(64) TileShapes {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  KVD_ALWAYS_INLINE void Set(int tile, std::size_t tile_rows, std::size_t bytes) {
    rows[tile] = static_cast<std::uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<std::uint16_t>(bytes);
  }
};
static_assert(sizeof(TileShapes) == 64);

struct Tiles {
  static KVD_ALWAYS_INLINE void Configure(const TileShapes& shapes) {
    __asm__ volatile("ldtilecfg %0" : : "m"(shapes));
  }
  static KVD_ALWAYS_INLINE void Release() { __asm__ volatile("tilerelease"); }
  template <int kTile>
  static KVD_ALWAYS_INLINE void Zero() {
    __asm__ volatile("tilezero %%tmm%c0" : : "n"(kTile));
  }
  template <int kTile>
  static KVD_ALWAYS_INLINE void Load(const void* from, std::size_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2"
                     :
                     : "r"(from), "r"(stride), "n"(kTile)
                     : "memory");
  }
  template <int kTile>
  static KVD_ALWAYS_INLINE void Store(void* to, std::size_t stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)"
                     :
                     : "r"(to), "r"(stride), "n"(kTile)
                     : "memory");
  }
  // sums[r][o] += rows[r][4 k + i] * columns[k][4 o + i], signed bytes. In the AT&T syntax of the
  // assembly the last operand is the tile of sums and the first operand the tile of columns.
  template <int kSums, int kRows, int kColumns>
  static KVD_ALWAYS_INLINE void AddProducts() {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0"
                     :
                     : "n"(kSums), "n"(kRows), "n"(kColumns));
  }
  // Adds products of pairs of bf16 to sums in f32: even and odd elements are summed separately from
  // 0, k ascending, by fused multiply-adds; then their sum is added to sums[r][o].
  template <int kSums, int kRows, int kColumns>
  static KVD_ALWAYS_INLINE void AddHalfProducts() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0"
                     :
                     : "n"(kSums), "n"(kRows), "n"(kColumns));
  }
};

}  // namespace kvd::kernels::amx
