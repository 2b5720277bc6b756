// Attention over a run with products of bf16 using tiles: pairs of elements in the scores, pairs of
// cells in the values. The panels have the layout of kernels/avx512bf16: sixteen pairs of sixteen
// cells, or of sixteen elements, of a panel are loaded into a tile without rearrangement.
//
// A tile has as many rows as the call, at most sixteen (TileRow). A call therefore needs only one
// tile configuration, usually the configuration of the previous call.
#include "kernels/amx/functions.h"
#include "kernels/amx/pair_products.h"
#include "kernels/avx512bf16/cell_panels.h"
#include "kernels/panels.h"

namespace kvd::kernels::amx {

using avx512::Lanes;

namespace {

// The rows and pairs of the calling thread's tiles; 0 if the tiles are not configured for
// attention.
constinit thread_local std::size_t held_shapes = 0;

void Hold(std::size_t row_count, std::size_t pair_count) {
  const std::size_t rows = row_count < kTileRows ? row_count : kTileRows;
  const std::size_t wanted = rows * 256 + pair_count;
  if (held_shapes == wanted) return;
  PairProducts::Configure(rows, rows, pair_count);
  held_shapes = wanted;
}

// Computes the sums for two tiles of rows (t, and t + 1 if it exists) and one or two tiles of
// columns.
KVD_ALWAYS_INLINE void SumTiles(PairProducts products, const std::uint8_t* rows, std::size_t t,
                                std::size_t row_count, bool two_columns, float* sums) {
  const bool two_rows = (t + 1) * kTileRows < row_count;
  products.rows[0] = rows + TileRow(t, row_count) * products.row_stride;
  products.rows[1] =
      two_rows ? rows + TileRow(t + 1, row_count) * products.row_stride : products.rows[0];
  if (two_rows && two_columns) return products.Sum<true, true>(sums);
  if (two_rows) return products.Sum<true, false>(sums);
  if (two_columns) return products.Sum<false, true>(sums);
  products.Sum<false, false>(sums);
}

// Calls of(r, the sums of row r) once for each row r of the tiles t and t + 1.
template <class F>
KVD_ALWAYS_INLINE void ForRows(const float* sums, std::size_t t, std::size_t row_count,
                               const F& of) {
  for (std::size_t i = 0; i < 2; ++i, sums += kTileRows * 32) {
    std::size_t r = (t + i) * kTileRows;
    const std::size_t end = row_count - r < kTileRows ? row_count : r + kTileRows;
    if (r >= row_count) return;
    for (const std::size_t first = TileRow(t + i, row_count); r < end; ++r) {
      of(r, sums + (r - first) * 32);
    }
  }
}

KVD_ALWAYS_INLINE Lanes::Mask MaskOf(std::size_t count) {
  return count >= 16 ? Lanes::Mask{0xffff} : Lanes::FirstLanes(count);
}

}  // namespace

void ForgetHeldShapes() { held_shapes = 0; }

void Scores(const void* panel, std::size_t cell_count, std::size_t dim, const void* q,
            std::size_t row_count, float scale, float* scores, std::size_t score_stride) {
  if (row_count == 0) return;
  constexpr std::size_t kRowBytes = kRunCells * avx512bf16::kPairBytes;
  const auto* const keys = static_cast<const std::uint8_t*>(panel);
  const bool two_columns = cell_count > 16;
  const PairProducts products = {.rows = {},
                                 .row_stride = Bf16RowBytes(dim),
                                 .columns = {keys, keys + 64},
                                 .column_stride = kRowBytes,
                                 .step_bytes = 16 * kRowBytes,
                                 .step_count = Bf16Padded(dim) / 32};
  const Lanes::Mask low = MaskOf(cell_count), high = MaskOf(two_columns ? cell_count - 16 : 0);
  const auto factor = Lanes::Set(scale);
  alignas(64) float sums[2][32 * 32];  // of the current tiles and of the previous ones
  const auto finish = [&](std::size_t t) KVD_INLINE_LAMBDA {
    ForRows(sums[t / 2 % 2], t, row_count, [&](std::size_t r, const float* from) KVD_INLINE_LAMBDA {
      float* const to = scores + r * score_stride;
      Lanes::Store(to, Lanes::Mul(factor, Lanes::Load(from)), low);
      if (two_columns) Lanes::Store(to + 16, Lanes::Mul(factor, Lanes::Load(from + 16)), high);
    });
  };
  Hold(row_count, 16);
  std::size_t t = 0;
  for (; t * kTileRows < row_count; t += 2) {
    SumTiles(products, static_cast<const std::uint8_t*>(q), t, row_count, two_columns,
             sums[t / 2 % 2]);
    if (t != 0) finish(t - 2);
  }
  finish(t - 2);
}

void AddValues(const void* panel, std::size_t first, std::size_t end, std::size_t dim,
               const std::uint16_t* p, const float* rescales, std::size_t row_count, float* values,
               std::size_t value_stride) {
  if (row_count == 0) return;
  const std::size_t first_pair = first / 2, pair_count = (end + 1) / 2 - first_pair;
  const std::size_t panel_row = avx512bf16::ValuePanelRowBytes(dim);
  const auto* const pairs = static_cast<const std::uint8_t*>(panel) + first_pair * panel_row;
  const auto* const weights = reinterpret_cast<const std::uint8_t*>(p + 2 * first_pair);
  alignas(64) float sums[2][32 * 32];  // of the current tiles and of the previous ones
  struct Part {
    std::size_t d, t;  // the first element and tile of rows
  };
  const auto finish = [&](const Part& part, const float* from) KVD_INLINE_LAMBDA {
    const std::size_t left = dim - part.d;
    const Lanes::Mask low = MaskOf(left), high = MaskOf(left > 16 ? left - 16 : 0);
    ForRows(from, part.t, row_count, [&](std::size_t r, const float* sum) KVD_INLINE_LAMBDA {
      float* const to = values + r * value_stride + part.d;
      const auto rescale = Lanes::Set(rescales[r]);
      const auto add = [&](std::size_t at, Lanes::Mask mask) KVD_INLINE_LAMBDA {
        Lanes::Store(to + at,
                     Lanes::Fma(Lanes::Load(to + at, mask), rescale, Lanes::Load(sum + at)), mask);
      };
      add(0, low);
      if (left > 16) add(16, high);
    });
  };
  Hold(row_count, pair_count);
  Part before = {};
  std::size_t count = 0;
  for (std::size_t d = 0; d < dim; d += 32) {
    const std::uint8_t* const columns = pairs + d * avx512bf16::kPairBytes;
    const PairProducts products = {.rows = {},
                                   .row_stride = kRunCells * sizeof(std::uint16_t),
                                   .columns = {columns, columns + 64},
                                   .column_stride = panel_row,
                                   .step_bytes = 0,
                                   .step_count = 1};
    for (std::size_t t = 0; t * kTileRows < row_count; t += 2, ++count) {
      SumTiles(products, weights, t, row_count, dim - d > 16, sums[count % 2]);
      if (count != 0) finish(before, sums[(count + 1) % 2]);
      before = {d, t};
    }
  }
  if (count != 0) finish(before, sums[(count + 1) % 2]);
}

}  // namespace kvd::kernels::amx
