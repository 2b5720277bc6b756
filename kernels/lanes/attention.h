// Attention over one run of at most 32 cells.
#pragma once

#include "kernels/kernel_table.h"
#include "kernels/lanes/dot_tile.h"

namespace kvd::kernels {

template <class Isa>
KVD_ALWAYS_INLINE void ScoresWith(DataType k_type, const void* k, std::size_t cell_count,
                                  std::size_t dim, const float* q, std::size_t q_stride,
                                  std::size_t row_count, float scale, float* scores,
                                  std::size_t score_stride) {
  constexpr int kRowsMax = Isa::Lanes::kScoreRowsMax;
  const auto* cells = static_cast<const std::uint8_t*>(k);
  WithCellDecoder<Isa>(k_type, [&](auto decoder) KVD_INLINE_LAMBDA {
    using D = decltype(decoder);
    const std::size_t tile_count = (row_count + kRowsMax - 1) / kRowsMax;
    for (std::size_t t = 0; t < tile_count; ++t) {
      const std::size_t row = row_count * t / tile_count;
      const std::size_t rows = row_count * (t + 1) / tile_count - row;
      StaticFor<kRowsMax>([&](auto r) KVD_INLINE_LAMBDA {
        constexpr int kRows = decltype(r)::value + 1;
        if (rows != kRows) return;
        float* y[kRows];
        for (std::size_t i = 0; i < kRows; ++i) y[i] = scores + (row + i) * score_stride;
        DotRows<Isa, D, kRows, true>(cells, cell_count, q + row * q_stride, q_stride, dim, scale,
                                     y);
      });
    }
  });
}

template <class Isa>
KVD_ALWAYS_INLINE float SoftmaxRunWith(float* scores, std::size_t cell_count, SoftmaxState* state) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  const std::size_t whole = cell_count / 16 * 16, tail = cell_count % 16;
  const auto mask = L::FirstLanes(tail);

  V maxima = L::Set(state->max);
  for (std::size_t c = 0; c < whole; c += 16) maxima = L::Max(maxima, L::Load(scores + c));
  if (tail != 0) {
    maxima = L::Max(maxima, L::Select(mask, L::Load(scores + whole, mask), maxima));
  }
  const float max = L::Largest(maxima) + 0.0f;  // a zero maximum is +0, whichever zero came first

  // Exp gives no -0, so adding +0 in the lanes after the last cell leaves the partial sums as they
  // are.
  V sums = L::Zero();
  for (std::size_t c = 0; c < whole; c += 16) {
    const V e = L::Exp(L::Sub(L::Load(scores + c), L::Set(max)));
    L::Store(scores + c, e);
    sums = L::Add(sums, e);
  }
  if (tail != 0) {
    const V e = L::Exp(L::Sub(L::Load(scores + whole, mask), L::Set(max)));
    L::Store(scores + whole, e, mask);
    sums = L::Add(sums, L::Select(mask, e, L::Zero()));
  }
  float rescale = 1.0f;
  if (state->max != max) {
    float lanes[16];
    L::Store(lanes, L::Exp(L::Set(state->max - max)));
    rescale = lanes[0];
  }
  state->sum = state->sum * rescale + L::Total(sums);
  state->max = max;
  return rescale;
}

// Elements [d, d + 32 * kBlocks) of the values, which stay in registers over all cells.
template <class Isa, class D, int kBlocks>
KVD_ALWAYS_INLINE void AddValueBlocks(const std::uint8_t* v, std::size_t cell_bytes,
                                      std::size_t cell_count, const float* p, float rescale,
                                      float* values) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  V sums[2 * kBlocks];
  StaticFor<2 * kBlocks>([&](auto i) KVD_INLINE_LAMBDA {
    V& sum = sums[i.value];
    sum = rescale == 0.0f ? L::Zero() : L::Load(values + 16 * i.value);
    if (rescale != 0.0f && rescale != 1.0f) sum = L::Mul(sum, L::Set(rescale));
  });
  for (std::size_t c = 0; c < cell_count; ++c, v += cell_bytes) {
    const V weight = L::Set(p[c]);
    StaticFor<kBlocks>([&](auto i) KVD_INLINE_LAMBDA {
      V a, b;
      D::template Pair<0>(D::Open(v + i.value * D::kBytes), &a, &b);
      sums[2 * i.value] = L::Fma(weight, a, sums[2 * i.value]);
      sums[2 * i.value + 1] = L::Fma(weight, b, sums[2 * i.value + 1]);
    });
  }
  StaticFor<2 * kBlocks>([&](auto i)
                             KVD_INLINE_LAMBDA { L::Store(values + 16 * i.value, sums[i.value]); });
}

// The last n < 32 elements of a plain type.
template <class Isa, class D>
KVD_ALWAYS_INLINE void AddValueRest(const std::uint8_t* v, std::size_t cell_bytes,
                                    std::size_t cell_count, std::size_t n, const float* p,
                                    float rescale, float* values) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  while (n != 0) {
    const std::size_t count = n < 16 ? n : 16;
    const auto mask = L::FirstLanes(count);  // unused for a whole group
    V sum = L::Zero();
    if (rescale != 0.0f) sum = count == 16 ? L::Load(values) : L::Load(values, mask);
    if (rescale != 0.0f && rescale != 1.0f) sum = L::Mul(sum, L::Set(rescale));
    for (std::size_t c = 0; c < cell_count; ++c) {
      const std::uint8_t* cell = v + c * cell_bytes;
      sum = L::Fma(L::Set(p[c]), count == 16 ? D::Group(cell) : D::Group(cell, count), sum);
    }
    if (count == 16) {
      L::Store(values, sum);
    } else {
      L::Store(values, sum, mask);
    }
    v += count * D::kElementBytes;
    values += count;
    n -= count;
  }
}

template <class Isa>
KVD_ALWAYS_INLINE void AddValuesWith(DataType v_type, const void* v, std::size_t cell_count,
                                     std::size_t dim, const float* p, float rescale,
                                     float* values) {
  const auto* cells = static_cast<const std::uint8_t*>(v);
  WithCellDecoder<Isa>(v_type, [&](auto decoder) KVD_INLINE_LAMBDA {
    using D = decltype(decoder);
    const std::size_t cell_bytes = DecoderRowBytes<D>(dim);
    std::size_t d = 0;
    constexpr int kBlocks = Isa::Lanes::kValueBlocks;
    for (; d + 32 * kBlocks <= dim; d += 32 * kBlocks) {
      AddValueBlocks<Isa, D, kBlocks>(cells + DecoderRowBytes<D>(d), cell_bytes, cell_count, p,
                                      rescale, values + d);
    }
    for (; d + 32 <= dim; d += 32) {
      AddValueBlocks<Isa, D, 1>(cells + DecoderRowBytes<D>(d), cell_bytes, cell_count, p, rescale,
                                values + d);
    }
    if constexpr (D::kPlain) {
      AddValueRest<Isa, D>(cells + DecoderRowBytes<D>(d), cell_bytes, cell_count, dim - d, p,
                           rescale, values + d);
    }
  });
}

}  // namespace kvd::kernels
