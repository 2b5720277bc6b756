// y = x W^T for every weight type.
//
// Few rows of x: the weights are decoded in registers as they stream by (kernels/lanes/dot_tile.h); memory is the limit.
// Many rows: a panel of weight rows is decoded once into the workspace, in groups of kWideOuts rows interleaved by sixteen
// elements, and every row of x is multiplied by it in tiles of kWideRows x kWideOuts; the multiply-adds are the limit.
// A tile walks kTileElements elements at a time for all groups of the panel while its rows of x lie in the first-level
// cache; its partial sums wait in the workspace, which changes no bit of them.
#pragma once

#include "kernels/kernel_table.h"
#include "kernels/lanes/decode.h"
#include "kernels/lanes/dot_tile.h"
#include "kernels/matmul_panel.h"

namespace kvd::kernels {

// A part of the elements of one tile.
struct WideStep {
  const float* panel;  // [group_count (+ 1 if tail)][kWideOuts][16]
  const float* x;      // of the first row, at the first element
  std::size_t x_stride;
  std::size_t group_count;  // whole groups of sixteen elements
  std::size_t tail;         // elements after them, < 16
  bool first;               // the sums start at 0, else from `sums`
  bool last;                // the totals go to y, else the sums to `sums`
  float* sums;              // [kRows][kWideOuts][16]
  float* const* y;          // [kRows]
  std::size_t out;
  std::size_t out_count;  // <= kWideOuts outputs exist
};

template <class L, int kRows>
void WideTile(const WideStep& step) {
  using V = typename L::V;
  constexpr int kOuts = L::kWideOuts;
  V sums[kRows][kOuts];
  StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
    StaticFor<kOuts>([&](auto o) KVD_INLINE_LAMBDA {
      sums[r.value][o.value] =
          step.first ? L::Zero() : L::Load(step.sums + (r.value * kOuts + o.value) * 16);
    });
  });

  const float* panel = step.panel;
  const float* x = step.x;
  const std::size_t x_stride = step.x_stride;
  for (std::size_t g = 0; g < step.group_count; ++g, panel += 16 * kOuts, x += 16) {
    V w[kOuts];
    StaticFor<kOuts>([&](auto o) KVD_INLINE_LAMBDA { w[o.value] = L::Load(panel + 16 * o.value); });
    StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
      const V row = L::Load(x + r.value * x_stride);
      StaticFor<kOuts>([&](auto o) KVD_INLINE_LAMBDA {
        sums[r.value][o.value] = L::Fma(row, w[o.value], sums[r.value][o.value]);
      });
    });
  }
  if (step.tail != 0) {
    const auto mask = L::FirstLanes(step.tail);
    StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
      const V row = L::Load(x + r.value * x_stride, mask);
      StaticFor<kOuts>([&](auto o) KVD_INLINE_LAMBDA {
        V& sum = sums[r.value][o.value];
        sum = L::Fma(row, L::Load(panel + 16 * o.value), sum, mask);
      });
    });
  }

  StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
    if (!step.last) {
      StaticFor<kOuts>([&](auto o) KVD_INLINE_LAMBDA {
        L::Store(step.sums + (r.value * kOuts + o.value) * 16, sums[r.value][o.value]);
      });
      return;
    }
    float totals[kOuts];
    StoreTotals<L, kOuts>(sums[r.value], totals);
    float* to = step.y[r.value] + step.out;
    if (step.out_count == kOuts) {
      __builtin_memcpy(to, totals, sizeof totals);
    } else {
      for (std::size_t o = 0; o < step.out_count; ++o) to[o] = totals[o];
    }
  });
}

// kRows rows of x, from args.x + row * args.x_stride, times the outputs [first_out, last_out) that the panel holds.
template <class L, int kRows>
void WideRows(const MatmulArgs& args, const float* panel, float* sums, std::size_t row,
              std::size_t first_out, std::size_t last_out) {
  constexpr std::size_t kOuts = L::kWideOuts;
  const std::size_t n = args.in_features;
  const std::size_t group_floats = (n + 15) / 16 * 16 * kOuts;  // of the panel, per kOuts outputs
  std::size_t j = 0;
  do {
    const std::size_t count = n - j < kTileElements ? n - j : kTileElements;
    WideStep step = {.panel = panel + j * kOuts,
                     .x = args.x + row * args.x_stride + j,
                     .x_stride = args.x_stride,
                     .group_count = count / 16,
                     .tail = count % 16,
                     .first = j == 0,
                     .last = j + count == n,
                     .sums = sums,
                     .y = args.y + row,
                     .out = first_out,
                     .out_count = kOuts};
    for (; step.out < last_out; step.out += kOuts) {
      if (last_out - step.out < kOuts) step.out_count = last_out - step.out;
      WideTile<L, kRows>(step);
      step.panel += group_floats;
      step.sums += kRows * kOuts * 16;
    }
    j += count;
  } while (j < n);
}

template <class L, int kRowsMax>
KVD_ALWAYS_INLINE void WideRowsOf(std::size_t row_count, const MatmulArgs& args, const float* panel,
                                  float* sums, std::size_t row, std::size_t first_out,
                                  std::size_t last_out) {
  StaticFor<kRowsMax>([&](auto r) KVD_INLINE_LAMBDA {
    constexpr int kRows = decltype(r)::value + 1;
    if (row_count == kRows) WideRows<L, kRows>(args, panel, sums, row, first_out, last_out);
  });
}

template <class Isa, class D>
void WideMatmul(const MatmulArgs& args) {
  using L = typename Isa::Lanes;
  constexpr std::size_t kOuts = L::kWideOuts;
  const std::size_t n = args.in_features;
  const std::size_t row_bytes = DecoderRowBytes<D>(n);
  const std::size_t panel_outs = PanelOutputs(n);
  const std::size_t panel_row_floats = (n + 15) / 16 * 16;
  const auto* weights = static_cast<const std::uint8_t*>(args.weights);
  float* panel = args.workspace;
  float* sums = args.workspace + panel_outs * panel_row_floats;
  // Tiles of about equal height, so that none is too low to fill the pipelines.
  const std::size_t tile_count = (args.row_count + L::kWideRows - 1) / L::kWideRows;

  for (std::size_t first = args.first_out; first < args.last_out; first += panel_outs) {
    const std::size_t last =
        first + panel_outs < args.last_out ? first + panel_outs : args.last_out;
    for (std::size_t o = first; o < last; ++o) {
      const std::size_t at = o - first;
      DecodeGroups<Isa, D, true>(weights + o * row_bytes, n,
                                 panel + at / kOuts * kOuts * panel_row_floats + at % kOuts * 16,
                                 16 * kOuts);
    }
    // The last group of outputs is filled up with copies of its first row, whose products nobody reads.
    for (std::size_t at = last - first; at % kOuts != 0; ++at) {
      DecodeGroups<Isa, D, true>(weights + (last - 1) * row_bytes, n,
                                 panel + at / kOuts * kOuts * panel_row_floats + at % kOuts * 16,
                                 16 * kOuts);
    }
    for (std::size_t t = 0; t < tile_count; ++t) {
      const std::size_t row = args.row_count * t / tile_count;
      const std::size_t row_end = args.row_count * (t + 1) / tile_count;
      WideRowsOf<L, L::kWideRows>(row_end - row, args, panel, sums, row, first, last);
    }
  }
}

template <class Isa, class D>
KVD_ALWAYS_INLINE void NarrowMatmul(const MatmulArgs& args) {
  const auto* weights = static_cast<const std::uint8_t*>(args.weights) +
                        args.first_out * DecoderRowBytes<D>(args.in_features);
  StaticFor<Isa::Lanes::kNarrowRowsMax>([&](auto r) KVD_INLINE_LAMBDA {
    constexpr int kRows = decltype(r)::value + 1;
    if (args.row_count != kRows) return;
    float* y[kRows];
    for (int i = 0; i < kRows; ++i) y[i] = args.y[i] + args.first_out;
    DotRows<Isa, D, kRows, false>(weights, args.last_out - args.first_out, args.x, args.x_stride,
                                  args.in_features, 1.0f, y);
  });
}

template <class Isa>
KVD_ALWAYS_INLINE void MatmulWith(const MatmulArgs& args) {
  if (args.row_count == 0 || args.first_out >= args.last_out) return;
  WithDecoder<Isa>(args.weight_type, [&](auto decoder) KVD_INLINE_LAMBDA {
    if (args.row_count <= Isa::Lanes::kNarrowRowsMax) {
      NarrowMatmul<Isa, decltype(decoder)>(args);
    } else {
      WideMatmul<Isa, decltype(decoder)>(args);
    }
  });
}

}  // namespace kvd::kernels
