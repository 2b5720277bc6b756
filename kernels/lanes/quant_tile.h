// Products of a few quantised rows of x with weight rows that are read four at a time. The integers
// are unpacked from the blocks in registers, and memory limits the speed.
//
// A vector of sums has 16 lanes: four partial sums for each of four outputs. Only Isa::Sums knows
// the order of the lanes.
#pragma once

#include "kernels/lanes/quant_rows.h"
#include "kernels/lanes/weights_ahead.h"

namespace kvd::kernels {

// sums[r] += a quad's blocks times the blocks of x from b; only the first block_count < 4 blocks if
// kPartial.
template <class Isa, class Q, int kRows, bool kPartial>
KVD_ALWAYS_INLINE void AddQuad(const typename Isa::Quad& quad, const QuantizedRow* x, std::size_t b,
                               std::size_t block_count, typename Isa::Lanes::V* sums) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
    const QuantizedRow& row = x[r.value];
    const V products = Isa::Sums::template Of<Q>(quad, row, b);
    V& sum = sums[r.value];
    V next = L::Fma(products, L::Mul(quad.scales, Isa::Sums::Expanded(row.scales + b)), sum);
    if constexpr (Q::kMinimums) {
      next = L::Fma(quad.minimums, Isa::Sums::Expanded(row.scaled_sums + b), next);
    }
    if constexpr (kHasHalfMinimums<Q>) {
      next = L::Fma(quad.half_minimums, Isa::Sums::ScaledHalfStarts(row, b), next);
    }
    if constexpr (kPartial) next = L::Select(Isa::Sums::OfBlocks(block_count), next, sum);
    sum = next;
  });
}

// y[r][0..4) = QuantDot(x[r], weight row o, n). ahead: null if the weights are in a cache.
// is_followed: at least Q::kBytes bytes of weights follow each of the four rows.
template <class Isa, class Q, int kRows>
KVD_ALWAYS_INLINE void QuantTile(WeightRows weights, bool is_followed, WeightsAhead* ahead,
                                 const QuantizedRow* x, std::size_t n, float (*y)[4]) {
  using L = typename Isa::Lanes;
  typename L::V sums[kRows];
  StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA { sums[r.value] = L::Zero(); });
  typename Isa::Quad quad;
  const std::size_t block_count = n / kQuantizedBlock;
  std::size_t b = 0;
  for (; b + 4 * Q::kGroups <= block_count; b += 4 * Q::kGroups) {
    if (ahead != nullptr) ahead->Advance(4 * Q::kBytes);
    const typename Q::State state = Q::Open(weights);
    StaticFor<Q::kGroups>([&](auto group) KVD_INLINE_LAMBDA {
      Q::template Group<group.value>(state, weights, &quad);
      AddQuad<Isa, Q, kRows, false>(quad, x, b + 4 * group.value, 4, sums);
    });
    weights.Advance(Q::kBytes);
  }
  if constexpr (Q::kGroups == 1) {
    if (b < block_count) {
      std::uint8_t padded[4][Q::kBytes];
      // Blocks after the end of a row are read and ignored, if there are any.
      if (!is_followed) weights.Pad((block_count - b) * (Q::kBytes / 4), padded);
      Q::template Group<0>(Q::Open(weights), weights, &quad);
      AddQuad<Isa, Q, kRows, true>(quad, x, b, block_count - b, sums);
    }
  }
  StaticFor<kRows>([&](auto r)
                       KVD_INLINE_LAMBDA { Isa::Sums::StoreJoined(sums[r.value], y[r.value]); });
}

// Multiplies kRows rows, starting at `row`, by the outputs [first, last). ahead: as QuantTile.
template <class Isa, class Q, int kRows>
void QuantRows(const MatmulArgs& args, std::size_t row, std::size_t first, std::size_t last,
               WeightsAhead* ahead) {
  const std::size_t n = args.in_features, row_bytes = QuadRowBytes<Q>(n);
  QuantizedRow x[kRows];
  StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
    x[r.value] = QuantizedRowAt(args.quantized_x, n, row + r.value);
  });
  for (std::size_t out = first; out < last; out += 4) {
    float y[kRows][4];
    const WeightRows rows = WeightRows::Of(args.weights, row_bytes, out, last);
    if (ahead != nullptr) ahead->MoveTo(rows.at[0]);
    const bool is_followed = out + 4 < args.last_out && row_bytes >= Q::kBytes;
    QuantTile<Isa, Q, kRows>(rows, is_followed, ahead, x, n, y);
    StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
      float* to = args.y[row + r.value] + out;
      if (last - out >= 4) {
        __builtin_memcpy(to, y[r.value], sizeof y[r.value]);
      } else {
        for (std::size_t o = 0; o < last - out; ++o) to[o] = y[r.value][o];
      }
    });
  }
}

// Processes all rows in tiles of Isa::kQuantTileRows, four outputs at a time, so that all tiles
// except the first read the weights from a cache. With a single tile of rows, all outputs are
// computed at once.
template <class Isa, class Q>
void NarrowQuantMatmul(const MatmulArgs& args) {
  constexpr std::size_t kTileRows = Isa::kQuantTileRows;
  const std::size_t tile_count = (args.row_count + kTileRows - 1) / kTileRows;
  const std::size_t outs_at_once = tile_count == 1 ? args.last_out - args.first_out : 4;
  const std::size_t row_bytes = QuadRowBytes<Q>(args.in_features);
  WeightsAhead ahead(static_cast<const std::uint8_t*>(args.weights) + args.first_out * row_bytes,
                     row_bytes, 4, args.ahead_bytes);
  for (std::size_t out = args.first_out; out < args.last_out; out += outs_at_once) {
    const std::size_t left = args.last_out - out;
    const std::size_t last = out + (left < outs_at_once ? left : outs_at_once);
    for (std::size_t t = 0; t < tile_count; ++t) {
      const std::size_t row = args.row_count * t / tile_count;
      const std::size_t rows = args.row_count * (t + 1) / tile_count - row;
      StaticFor<kTileRows>([&](auto r) KVD_INLINE_LAMBDA {
        constexpr int kRows = decltype(r)::value + 1;
        WeightsAhead* const first_tile = t == 0 ? &ahead : nullptr;
        if (rows == kRows) QuantRows<Isa, Q, kRows>(args, row, out, last, first_tile);
      });
    }
  }
}

}  // namespace kvd::kernels
