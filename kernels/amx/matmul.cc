// Products of many rows with quantised, f16 and bf16 weights through the tile instructions; others as
// avx512.
#include "kernels/amx/bf16_product.h"
#include "kernels/amx/functions.h"
#include "kernels/amx/tile_product.h"
#include "kernels/avx512bf16/functions.h"

namespace kvd::kernels::amx {
namespace {

// The instructions by their names: GCC 12's intrinsics take no template argument for a tile, and
// hide from it that ldtilecfg reads memory.
struct Tiles {
  // LDTILECFG's operand (palette 1).
  struct alignas(64) Configuration {
    std::uint8_t palette;
    std::uint8_t start_row;
    std::uint8_t reserved[14];
    std::uint16_t row_bytes[16];
    std::uint8_t rows[16];
  };
  static_assert(sizeof(Configuration) == 64);

  KVD_ALWAYS_INLINE void Configure(std::size_t tail_rows, std::size_t inner_bytes) {
    Configuration shapes = {};
    Set(&shapes, kWeights, inner_bytes / 4, 64);
    Set(&shapes, kRowsOf<false>, kTileRows, inner_bytes);
    Set(&shapes, kSumsOf<false>, kTileRows, 64);
    Set(&shapes, kRowsOf<true>, tail_rows, inner_bytes);
    Set(&shapes, kSumsOf<true>, tail_rows, 64);
    Load(&shapes);
  }
  KVD_ALWAYS_INLINE void ConfigureHalves(std::size_t first_rows, std::size_t second_rows) {
    Configuration shapes = {};
    for (int i = 0; i < 2; ++i) {
      const std::size_t rows = i == 0 ? first_rows : second_rows;
      for (const int tile : {2 * i, 2 * i + 1, 4 + i}) Set(&shapes, tile, rows, 64);
      Set(&shapes, 6 + i, kTileRows, 64);
    }
    Load(&shapes);
  }
  KVD_ALWAYS_INLINE void Release() { __asm__ volatile("tilerelease"); }
  template <int kTile>
  KVD_ALWAYS_INLINE void Zero() {
    __asm__ volatile("tilezero %%tmm%c0" : : "n"(kTile));
  }
  template <int kTile>
  KVD_ALWAYS_INLINE void Load(const void* from, std::size_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2"
                     :
                     : "r"(from), "r"(stride), "n"(kTile)
                     : "memory");
  }
  template <int kTile>
  KVD_ALWAYS_INLINE void Store(void* to, std::size_t stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)"
                     :
                     : "r"(to), "r"(stride), "n"(kTile)
                     : "memory");
  }
  // The instruction's last operand in this syntax is the sums, its first the weights.
  template <int kSums, int kRows, int kWeightTile>
  KVD_ALWAYS_INLINE void AddProducts() {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0"
                     :
                     : "n"(kSums), "n"(kRows), "n"(kWeightTile));
  }
  template <int kSums, int kRows, int kWeightTile>
  KVD_ALWAYS_INLINE void AddHalfProducts() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0"
                     :
                     : "n"(kSums), "n"(kRows), "n"(kWeightTile));
  }

 private:
  // A tile of no rows is left unconfigured.
  static KVD_ALWAYS_INLINE void Set(Configuration* shapes, int tile, std::size_t rows,
                                    std::size_t bytes) {
    if (rows == 0) return;
    shapes->rows[tile] = static_cast<std::uint8_t>(rows);
    shapes->row_bytes[tile] = static_cast<std::uint16_t>(bytes);
  }
  static KVD_ALWAYS_INLINE void Load(Configuration* shapes) {
    shapes->palette = 1;
    __asm__ volatile("ldtilecfg %0" : : "m"(*shapes));
  }
};

// Fewer rows leave too much of a tile empty.
constexpr std::size_t kRowsMin = 12;

}  // namespace

void Matmul(const MatmulArgs& args) {
  if (args.row_count < kRowsMin || args.first_out >= args.last_out ||
      !(TileMatmulOfType<Tiles>(args) || HalfTileMatmulOfType<Tiles>(args))) {
    avx512bf16::Matmul(args);
  }
}

}  // namespace kvd::kernels::amx
