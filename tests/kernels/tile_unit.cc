#include "tests/kernels/tile_unit.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

// TileUnit is used only on machines with AVX-512, so its functions for rows of tiles use AVX-512.
#define KVD_WITH_AVX512 [[gnu::target("avx512f,avx512bw")]]

namespace kvd::kernels {
namespace {

// Byte offsets of the fields in the operand of LDTILECFG.
constexpr std::size_t kStartRowAt = 1, kReservedAt = 2, kRowBytesAt = 16, kRowsAt = 48;

bool AreZero(const std::uint8_t* from, const std::uint8_t* to) {
  return std::all_of(from, to, [](std::uint8_t byte) { return byte == 0; });
}

// Computes one row of sums. `row`: row_bytes bytes of a row of the rows' tile. `columns`: the
// columns' tile, whose row k begins at columns[64 k].
KVD_WITH_AVX512 void AddProductsOfRow(const std::uint8_t* row, std::size_t row_bytes,
                                      const std::uint8_t* columns, std::uint8_t* sums) {
  __m512i sum = _mm512_load_si512(sums);
  for (std::size_t j = 0; j < row_bytes; ++j) {
    // Sign-extends byte j % 4 of each 4 bytes.
    const auto above = static_cast<unsigned>(24 - 8 * (j % 4));
    const __m512i four = _mm512_load_si512(columns + j / 4 * 64);
    const __m512i column =
        _mm512_srai_epi32(_mm512_sll_epi32(four, _mm_cvtsi32_si128(static_cast<int>(above))), 24);
    const __m512i x = _mm512_set1_epi32(static_cast<std::int8_t>(row[j]));
    sum = _mm512_add_epi32(sum, _mm512_mullo_epi32(x, column));
  }
  _mm512_store_si512(sums, sum);
}

KVD_WITH_AVX512 void AddHalfProductsOfRow(const std::uint8_t* row, std::size_t row_bytes,
                                          const std::uint8_t* columns, std::uint8_t* sums) {
  __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
  const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  for (std::size_t k = 0; k < row_bytes / 4; ++k) {
    std::int32_t pair = 0;
    std::memcpy(&pair, row + 4 * k, sizeof pair);
    const __m512i x = _mm512_set1_epi32(pair), y = _mm512_load_si512(columns + 64 * k);
    even = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(x, 16)),
                           _mm512_castsi512_ps(_mm512_slli_epi32(y, 16)), even);
    odd = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(x, high)),
                          _mm512_castsi512_ps(_mm512_and_si512(y, high)), odd);
  }
  _mm512_store_ps(sums, _mm512_add_ps(_mm512_load_ps(sums), _mm512_add_ps(even, odd)));
}

}  // namespace

const char* TileUnit::Configure(const void* from) {
  const auto* const bytes = static_cast<const std::uint8_t*>(from);
  const unsigned palette = bytes[0];
  if (palette == 0) {
    Release();
    return nullptr;
  }
  if (palette != 1) return "ldtilecfg: the palette does not exist";
  if (bytes[kStartRowAt] != 0) return "ldtilecfg: start_row is not 0";
  if (!AreZero(bytes + kReservedAt, bytes + kRowBytesAt) ||
      !AreZero(bytes + kRowBytesAt + 2 * kTiles, bytes + kRowsAt) ||
      !AreZero(bytes + kRowsAt + kTiles, bytes + 64)) {
    return "ldtilecfg: reserved bytes are not 0, or more than eight tiles";
  }
  TileUnit made;
  made.is_configured_ = true;
  for (std::size_t tile = 0; tile < kTiles; ++tile) {
    std::uint16_t row_bytes = 0;
    std::memcpy(&row_bytes, bytes + kRowBytesAt + 2 * tile, sizeof row_bytes);
    const Shape shape = {bytes[kRowsAt + tile], row_bytes};
    if (shape.rows > kRows) return "ldtilecfg: more than 16 rows";
    if (shape.row_bytes > kRowBytes) return "ldtilecfg: rows of more than 64 bytes";
    if ((shape.rows == 0) != (shape.row_bytes == 0))
      return "ldtilecfg: rows without bytes, or bytes without rows";
    made.shapes_[tile] = shape;
  }
  *this = made;
  return nullptr;
}

const char* TileUnit::Check(int tile) const {
  if (!is_configured_) return "no tiles are configured";
  return shapes_[tile].rows == 0 ? "the tile is not configured" : nullptr;
}

const char* TileUnit::Zero(int tile) {
  if (const char* fault = Check(tile)) return fault;
  std::memset(bytes_[tile], 0, sizeof bytes_[tile]);
  return nullptr;
}

const char* TileUnit::Load(int tile, const void* from, std::size_t stride) {
  if (const char* fault = Check(tile)) return fault;
  const auto* row = static_cast<const std::uint8_t*>(from);
  for (std::size_t r = 0; r < shapes_[tile].rows; ++r, row += stride) {
    std::memcpy(bytes_[tile][r], row, shapes_[tile].row_bytes);
  }
  return nullptr;
}

const char* TileUnit::Store(int tile, void* to, std::size_t stride) const {
  if (const char* fault = Check(tile)) return fault;
  auto* row = static_cast<std::uint8_t*>(to);
  for (std::size_t r = 0; r < shapes_[tile].rows; ++r, row += stride) {
    std::memcpy(row, bytes_[tile][r], shapes_[tile].row_bytes);
  }
  return nullptr;
}

const char* TileUnit::CheckProduct(int sums, int rows, int columns) const {
  if (sums == rows || sums == columns || rows == columns) return "the product uses one tile twice";
  for (const int tile : {sums, rows, columns}) {
    if (const char* fault = Check(tile)) return fault;
    if (shapes_[tile].row_bytes % 4 != 0) return "rows of the product are not whole words";
  }
  if (shapes_[sums].rows != shapes_[rows].rows) return "rows and sums have different row counts";
  if (shapes_[sums].row_bytes != shapes_[columns].row_bytes) {
    return "columns and sums have different column counts";
  }
  if (shapes_[rows].row_bytes != 4 * shapes_[columns].rows) {
    return "rows and columns have different lengths";
  }
  return nullptr;
}

const char* TileUnit::AddProducts(int sums, int rows, int columns) {
  if (const char* fault = CheckProduct(sums, rows, columns)) return fault;
  for (std::size_t m = 0; m < shapes_[sums].rows; ++m) {
    AddProductsOfRow(bytes_[rows][m], shapes_[rows].row_bytes, bytes_[columns][0], bytes_[sums][m]);
  }
  return nullptr;
}

const char* TileUnit::AddHalfProducts(int sums, int rows, int columns) {
  if (const char* fault = CheckProduct(sums, rows, columns)) return fault;
  const unsigned before = _mm_getcsr();
  constexpr unsigned kMasked = 0x1f80, kFlushToZero = 0x8000, kDenormalsAreZeros = 0x0040;
  _mm_setcsr(kMasked | kFlushToZero | kDenormalsAreZeros);
  for (std::size_t m = 0; m < shapes_[sums].rows; ++m) {
    AddHalfProductsOfRow(bytes_[rows][m], shapes_[rows].row_bytes, bytes_[columns][0],
                         bytes_[sums][m]);
  }
  _mm_setcsr(before);
  return nullptr;
}

}  // namespace kvd::kernels
