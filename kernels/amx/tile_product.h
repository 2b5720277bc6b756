// Products of many quantised rows of x with quantised weights through tiles of 16 x 16 integers
// (AMX), to the bits of QuantDot.
//
// The panel is the one of kernels/avx512/quant_panel.h with signed bytes: the eight vectors of a
// block are a tile as they lie there, and 32 bytes of sixteen rows of x are the other. A tile of
// sums is stored after each block, since a block ends in floats; that, and not the tile unit, is
// the limit.
//
// Tiles: what this needs of the instructions (kernels/amx/matmul.cc):
//   Configure(tail_rows, inner_bytes): the shapes below; Release();
//   Zero<tile>(), Load<tile>(from, stride), Store<tile>(to, stride): a tile's rows, `stride` bytes
//   apart;
//   AddProducts<sums, rows, weights>(): sums[r][o] += rows[r][4 k + i] * weights[k][4 o + i], signed.
#pragma once

#include "kernels/avx512/quant_panel.h"
#include "kernels/lanes/dispatch.h"

namespace kvd::kernels::amx {

using avx512::I;
using avx512::Lanes;
using avx512::PanelShape;
using avx512::V;

inline constexpr std::size_t kTileRows = 16;

// Tiles by number. A tail tile has the rows that are left over after whole ones.
inline constexpr int kWeights = 0;  // inner_bytes / 4 rows of 64 bytes
template <bool kTail>
inline constexpr int kRowsOf = kTail ? 2 : 1;  // rows of inner_bytes
template <bool kTail>
inline constexpr int kSumsOf = kTail ? 4 : 3;  // rows of 64 bytes

struct TileStep {
  const std::uint8_t* panel;  // one group of sixteen outputs
  const std::uint8_t* x;      // the first row, and the bytes from one to the next
  std::size_t x_stride;
  std::size_t row_count;  // 16, or less if kTail
  std::size_t block_count;
  float* const* y;  // [row_count]
  std::size_t out;
  std::size_t out_count;  // <= 16 outputs exist
};

template <class Tiles, class Q, bool kTail>
void TileGroup(Tiles& tiles, const TileStep& step) {
  using Shape = PanelShape<Q>;
  constexpr int kSums = kSumsOf<kTail>, kRows = kRowsOf<kTail>;
  constexpr std::size_t kParts = Q::kHalves ? 2 : 1;
  constexpr std::size_t kInner = kQuantizedBlock / kParts;
  const std::size_t padded = (step.block_count + 3) / 4 * 4;
  // Rows that a tail lacks are copies of its last one, whose results nobody reads.
  const std::uint8_t* rows[kTileRows];
  StaticFor<kTileRows>([&](auto r) KVD_INLINE_LAMBDA {
    const std::size_t row = !kTail || r.value < step.row_count ? r.value : step.row_count - 1;
    rows[r.value] = step.x + row * step.x_stride + padded * kQuantizedBlock;
  });
  const auto number = [&](std::size_t row, std::size_t array, std::size_t b) KVD_INLINE_LAMBDA {
    float value;
    __builtin_memcpy(&value, rows[row] + 4 * (array * padded + b), sizeof value);
    return Lanes::Set(value);
  };

  alignas(64) std::int32_t stored[kParts][kTileRows][16] = {};
  V totals[4][kTileRows];
  const std::uint8_t* block = step.panel;
  for (std::size_t p = 0; p < 4; ++p) {
    V sums[kTileRows];
    StaticFor<kTileRows>([&](auto r) KVD_INLINE_LAMBDA { sums[r.value] = Lanes::Zero(); });
    for (std::size_t b = p; b < step.block_count; b += 4, block += Shape::kVectors * 64) {
      StaticFor<kParts>([&](auto part) KVD_INLINE_LAMBDA {
        tiles.template Zero<kSums>();
        tiles.template Load<kRows>(step.x + kQuantizedBlock * b + kInner * part.value,
                                   step.x_stride);
        tiles.template Load<kWeights>(block + 64 * (Shape::kBytesAt + kInner / 4 * part.value), 64);
        tiles.template AddProducts<kSums, kRows, kWeights>();
        tiles.template Store<kSums>(stored[part.value], 64);
      });
      const auto vector = [&](std::size_t v)
                              KVD_INLINE_LAMBDA { return _mm512_loadu_si512(block + 64 * v); };
      const V scale = _mm512_castsi512_ps(vector(0));
      StaticFor<kTileRows>([&](auto r) KVD_INLINE_LAMBDA {
        I products = _mm512_load_si512(stored[0][r.value]);
        if constexpr (Q::kHalves) {
          products = _mm512_add_epi32(
              _mm512_mullo_epi32(products, vector(Shape::kParts)),
              _mm512_mullo_epi32(_mm512_load_si512(stored[1][r.value]), vector(Shape::kParts + 1)));
        }
        sums[r.value] = Lanes::Fma(_mm512_cvtepi32_ps(products),
                                   Lanes::Mul(scale, number(r.value, 0, b)), sums[r.value]);
      });
      if constexpr (Q::kMinimums) {
        const V minimum = _mm512_castsi512_ps(vector(Shape::kMinimums));
        StaticFor<kTileRows>([&](auto r) KVD_INLINE_LAMBDA {
          sums[r.value] = Lanes::Fma(minimum, number(r.value, 1, b), sums[r.value]);
        });
      }
    }
    StaticFor<kTileRows>([&](auto r) KVD_INLINE_LAMBDA { totals[p][r.value] = sums[r.value]; });
  }
  const Lanes::Mask mask =
      step.out_count == 16 ? Lanes::Mask{0xffff} : Lanes::FirstLanes(step.out_count);
  for (std::size_t r = 0; r < step.row_count; ++r) {
    Lanes::Store(
        step.y[r] + step.out,
        Lanes::Add(Lanes::Add(totals[0][r], totals[2][r]), Lanes::Add(totals[1][r], totals[3][r])),
        mask);
  }
}

template <class Tiles, class Q>
void TileMatmul(const MatmulArgs& args) {
  const std::size_t n = args.in_features;
  const std::size_t block_count = n / kQuantizedBlock;
  const std::size_t panel_outs = QuantPanelOuts(block_count, args.row_count);
  const std::size_t group_bytes = block_count * PanelShape<Q>::kVectors * 64;
  const std::size_t x_stride = QuantizedRowBytes(n);
  auto* const panel = reinterpret_cast<std::uint8_t*>(args.workspace);
  const auto* const x = static_cast<const std::uint8_t*>(args.quantized_x);

  Tiles tiles;
  tiles.Configure(args.row_count % kTileRows, kQuantizedBlock / (Q::kHalves ? 2 : 1));
  for (std::size_t first = args.first_out; first < args.last_out; first += panel_outs) {
    const std::size_t left = args.last_out - first;
    const std::size_t last = first + (left < panel_outs ? left : panel_outs);
    for (std::size_t out = first; out < last; out += 16) {
      avx512::PutGroup<Q, true>(args, out, last, panel + (out - first) / 16 * group_bytes);
    }
    for (std::size_t row = 0; row < args.row_count; row += kTileRows) {
      const std::size_t rows_left = args.row_count - row;
      TileStep step = {.panel = panel,
                       .x = x + row * x_stride,
                       .x_stride = x_stride,
                       .row_count = rows_left < kTileRows ? rows_left : kTileRows,
                       .block_count = block_count,
                       .y = args.y + row,
                       .out = first,
                       .out_count = 16};
      for (; step.out < last; step.out += 16, step.panel += group_bytes) {
        if (last - step.out < 16) step.out_count = last - step.out;
        if (step.row_count == kTileRows) {
          TileGroup<Tiles, Q, false>(tiles, step);
        } else {
          TileGroup<Tiles, Q, true>(tiles, step);
        }
      }
    }
  }
  tiles.Release();
}

// False, with nothing done, if the weights are not quantised. REQUIRES: a row and an output.
template <class Tiles>
KVD_ALWAYS_INLINE bool TileMatmulOfType(const MatmulArgs& args) {
  bool done = false;
  WithQuads<avx512::QuadTypes>(args.weight_type, [&](auto quads) KVD_INLINE_LAMBDA {
    TileMatmul<Tiles, decltype(quads)>(args);
    done = true;
  });
  return done;
}

}  // namespace kvd::kernels::amx
