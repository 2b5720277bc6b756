// Dot products of a few rows of x with a few weight rows, which are decoded in registers as they
// are read.
//
// Every (row, output) pair has its own sixteen partial sums and processes the elements in order, so
// that its bits do not depend on the tile. Dot tiles are used if the weights are read about once:
// in products of few rows, and for attention scores.
#pragma once

#include "kernels/lanes/dispatch.h"

namespace kvd::kernels {

// Computes the totals of kCount vectors; the lanes of each vector are added by the fixed tree.
template <class L, int kCount>
KVD_ALWAYS_INLINE void StoreTotals(const typename L::V* sums, float* totals) {
  if constexpr (kCount == 4) {
    L::Totals4(sums, totals);
  } else {
    StaticFor<kCount>([&](auto i) KVD_INLINE_LAMBDA { totals[i.value] = L::Total(sums[i.value]); });
  }
}

// How many bytes ahead of its reads a tile prefetches weights. The hardware prefetcher does not
// predict the reads of a tile, because weight rows are short and a tile reads several of them in
// turn. Lines are prefetched in memory order, although a tile reads four rows at a time, because
// memory serves one stream faster than four (docs/decisions/0014). The last tile
// also prefetches lines after the end of the weights, which is useless and harmless, since a
// prefetch cannot fault.
inline constexpr std::size_t kPrefetchedBytes = 16384;

template <std::size_t kBytes>
KVD_ALWAYS_INLINE void PrefetchBlock(const std::uint8_t* block) {
  StaticFor<(kBytes + 63) / 64>(
      [&](auto line) KVD_INLINE_LAMBDA { __builtin_prefetch(block + 64 * line.value); });
}

// y[r][o] = Dot(x + r * x_stride, weight row o, n), times `scale` if kScaled; r < kRows, o < kOuts.
template <class Isa, class D, int kRows, int kOuts, bool kScaled>
KVD_ALWAYS_INLINE void DotTile(const std::uint8_t* weights, std::size_t weight_stride,
                               const float* x, std::size_t x_stride, std::size_t n, float scale,
                               float* const* y) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  V sums[kRows][kOuts];
  StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
    StaticFor<kOuts>([&](auto o) KVD_INLINE_LAMBDA { sums[r.value][o.value] = L::Zero(); });
  });

  std::size_t j = 0;
  const std::uint8_t* block = weights;
  const std::uint8_t* ahead = weights + kPrefetchedBytes;
  for (; j + D::kElements <= n; j += D::kElements, block += D::kBytes) {
    typename D::State states[kOuts];
    StaticFor<kOuts>([&](auto o) KVD_INLINE_LAMBDA {
      states[o.value] = D::Open(block + o.value * weight_stride);
    });
    PrefetchBlock<kOuts * D::kBytes>(ahead);
    ahead += kOuts * D::kBytes;
    StaticFor<D::kElements / 32>([&](auto pair) KVD_INLINE_LAMBDA {
      const float* from = x + j + 32 * pair.value;
      StaticFor<kOuts>([&](auto o) KVD_INLINE_LAMBDA {
        V a, b;
        D::template Pair<pair.value>(states[o.value], &a, &b);
        StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
          V& sum = sums[r.value][o.value];
          sum = L::Fma(L::Load(from + r.value * x_stride), a, sum);
          sum = L::Fma(L::Load(from + r.value * x_stride + 16), b, sum);
        });
      });
    });
  }
  if constexpr (D::kPlain) {
    if (j + 16 <= n) {
      StaticFor<kOuts>([&](auto o) KVD_INLINE_LAMBDA {
        const V w = D::Group(block + o.value * weight_stride);
        StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
          V& sum = sums[r.value][o.value];
          sum = L::Fma(L::Load(x + j + r.value * x_stride), w, sum);
        });
      });
      j += 16;
      block += 16 * D::kElementBytes;
    }
    if (j < n) {
      const auto mask = L::FirstLanes(n - j);
      StaticFor<kOuts>([&](auto o) KVD_INLINE_LAMBDA {
        const V w = D::Group(block + o.value * weight_stride, n - j);
        StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
          V& sum = sums[r.value][o.value];
          sum = L::Fma(L::Load(x + j + r.value * x_stride, mask), w, sum, mask);
        });
      });
    }
  }

  StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
    float* to = y[r.value];
    StoreTotals<L, kOuts>(sums[r.value], to);
    if constexpr (kScaled) {
      StaticFor<kOuts>([&](auto o) KVD_INLINE_LAMBDA { to[o.value] = scale * to[o.value]; });
    }
  });
}

// Computes the same products for any number of outputs: y[r][0 .. out_count).
template <class Isa, class D, int kRows, bool kScaled>
void DotRows(const std::uint8_t* weights, std::size_t out_count, const float* x,
             std::size_t x_stride, std::size_t n, float scale, float* const* y) {
  constexpr int kOuts = Isa::Lanes::NarrowOuts(kRows);
  const std::size_t stride = DecoderRowBytes<D>(n);
  float* to[kRows];
  std::size_t o = 0;
  for (; o + kOuts <= out_count; o += kOuts) {
    StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA { to[r.value] = y[r.value] + o; });
    DotTile<Isa, D, kRows, kOuts, kScaled>(weights + o * stride, stride, x, x_stride, n, scale, to);
  }
  if constexpr (kOuts > 1) {
    for (; o < out_count; ++o) {
      StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA { to[r.value] = y[r.value] + o; });
      DotTile<Isa, D, kRows, 1, kScaled>(weights + o * stride, stride, x, x_stride, n, scale, to);
    }
  }
}

}  // namespace kvd::kernels
