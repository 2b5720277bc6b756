// y = x W^T for weights of f32, f16 and bf16 (for quantised weights see quads.h of each set).
//
// For few rows of x, the weights are decoded in registers as they are read
// (kernels/lanes/dot_tile.h), and memory limits the speed. For many rows of x, a panel of weights
// is decoded once into the workspace, in groups of kWideOuts outputs interleaved by sixteen
// elements, and every row of x is multiplied by the panel in tiles of kWideRows x kWideOuts, and
// the multiply-adds limit the speed. kernels/panels.h describes how the product is divided to
// fit the caches.
//
// The order of sums, which is the same for any number of rows, costs no speed on Zen 5, where a
// tile reaches the rate of OpenBLAS. Processors that load more slowly are faster with the outer
// products of kernels/lanes/outer_product.h, which have another order
// (docs/measurements/product-choices.md).
#pragma once

#include "kernels/kernel_table.h"
#include "kernels/lanes/decode.h"
#include "kernels/lanes/dot_tile.h"
#include "kernels/lanes/outer_product.h"
#include "kernels/lanes/static_for.h"
#include "kernels/panels.h"

namespace kvd::kernels {

// A part of the elements of one tile.
struct WideStep {
  const float* panel;  // [group_count (+ 1 if tail)][kWideOuts][16]
  const float* x;      // of the first row, at the first element
  std::size_t x_stride;
  std::size_t group_count;  // whole groups of sixteen elements
  std::size_t tail;         // elements after them, < 16
  bool first;               // the sums start at 0, otherwise with `sums`
  bool last;                // the totals are written to y, otherwise the sums to `sums`
  float* sums;              // [kRows][kWideOuts][16]
  float* const* y;          // [kRows]
  std::size_t out;
  std::size_t out_count;  // number of outputs to write, <= kWideOuts
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
    L::template AddProducts<kRows>(x, x_stride, panel, sums);
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

// One panel: elements [first_element, first_element + element_count) of the outputs [first_out,
// last_out).
struct Panel {
  const float* weights =
      nullptr;  // [outputs / kWideOuts, rounded up][groups of sixteen elements][kWideOuts][16]
  std::size_t first_element = 0;
  std::size_t element_count = 0;
  std::size_t first_out = 0;
  std::size_t last_out = 0;
};

// Multiplies kRows rows of x, starting at `row`, by a panel. sums: [outputs of the
// panel][kRows][16], kept between panels.
template <class L, int kRows>
void WideRows(const MatmulArgs& args, const Panel& panel, std::size_t row, float* sums) {
  constexpr std::size_t kOuts = L::kWideOuts;
  const std::size_t count = panel.element_count;
  WideStep step = {.panel = panel.weights,
                   .x = args.x + row * args.x_stride + panel.first_element,
                   .x_stride = args.x_stride,
                   .group_count = count / 16,
                   .tail = count % 16,
                   .first = panel.first_element == 0,
                   .last = panel.first_element + count == args.in_features,
                   .sums = sums,
                   .y = args.y + row,
                   .out = panel.first_out,
                   .out_count = kOuts};
  for (; step.out < panel.last_out; step.out += kOuts) {
    if (panel.last_out - step.out < kOuts) step.out_count = panel.last_out - step.out;
    WideTile<L, kRows>(step);
    step.panel += (count + 15) / 16 * 16 * kOuts;
    step.sums += kRows * kOuts * 16;
  }
}

// Decodes a panel. The last group of outputs is filled with copies; the products of these copies
// are not used.
template <class Isa, class D>
KVD_ALWAYS_INLINE void DecodePanel(const MatmulArgs& args, const Panel& panel, float* to) {
  constexpr std::size_t kOuts = Isa::Lanes::kWideOuts;
  const std::size_t row_bytes = DecoderRowBytes<D>(args.in_features);
  const std::size_t row_floats = (panel.element_count + 15) / 16 * 16;
  const auto* weights =
      static_cast<const std::uint8_t*>(args.weights) + DecoderRowBytes<D>(panel.first_element);
  for (std::size_t o = panel.first_out; o < panel.last_out || (o - panel.first_out) % kOuts != 0;
       ++o) {
    const std::size_t at = o - panel.first_out;
    const std::size_t source = o < panel.last_out ? o : panel.last_out - 1;
    DecodeGroups<Isa, D, true>(weights + source * row_bytes, panel.element_count,
                               to + at / kOuts * kOuts * row_floats + at % kOuts * 16, 16 * kOuts);
  }
}

// Multiplies rows [first_row, first_row + row_count) of x, at most kPassRows, by the outputs of a
// panel.
template <class Isa, class D>
void WidePass(const MatmulArgs& args, Panel panel, std::size_t first_row, std::size_t row_count) {
  using L = typename Isa::Lanes;
  const std::size_t n = args.in_features;
  const std::size_t panel_elements = n < kPanelElements ? (n + 15) / 16 * 16 : kPanelElements;
  float* const weights = args.workspace;
  float* const sums = weights + kPanelOutputs * panel_elements;
  // If all elements fit one panel, no sums are kept and all tiles use the same sums.
  const std::size_t sum_floats = n <= kPanelElements ? 0 : L::kWideRows * kPanelOutputs * 16;

  panel.weights = weights;
  do {
    const std::size_t elements_left = n - panel.first_element;
    panel.element_count = elements_left < kPanelElements ? elements_left : kPanelElements;
    DecodePanel<Isa, D>(args, panel, weights);
    ForRowTiles<L, L::kWideRows>(
        row_count, [&](auto rows, std::size_t tile, std::size_t row) KVD_INLINE_LAMBDA {
          WideRows<L, rows.value>(args, panel, first_row + row, sums + tile * sum_floats);
        });
    panel.first_element += panel.element_count;
  } while (panel.first_element < n);
}

template <class Isa, class D>
KVD_ALWAYS_INLINE void WideMatmul(const MatmulArgs& args) {
  const std::size_t pass_count = (args.row_count + kPassRows - 1) / kPassRows;
  Panel panel;
  for (panel.first_out = args.first_out; panel.first_out < args.last_out;
       panel.first_out = panel.last_out) {
    const std::size_t outs_left = args.last_out - panel.first_out;
    panel.last_out = panel.first_out + (outs_left < kPanelOutputs ? outs_left : kPanelOutputs);
    for (std::size_t pass = 0; pass < pass_count; ++pass) {
      const std::size_t row = args.row_count * pass / pass_count;
      WidePass<Isa, D>(args, panel, row, args.row_count * (pass + 1) / pass_count - row);
    }
  }
}

// Computes four outputs at a time for all rows, so that all tiles of rows except the first read the
// weights from the first-level cache.
template <class Isa, class D>
KVD_ALWAYS_INLINE void NarrowMatmul(const MatmulArgs& args) {
  constexpr int kTileRows = Isa::Lanes::kNarrowTileRows;
  const std::size_t row_bytes = DecoderRowBytes<D>(args.in_features);
  const auto* weights = static_cast<const std::uint8_t*>(args.weights);
  // With a single tile of rows, all outputs are computed at once.
  const std::size_t outs_at_once = args.row_count <= kTileRows ? args.last_out - args.first_out : 4;
  for (std::size_t out = args.first_out; out < args.last_out; out += outs_at_once) {
    const std::size_t left = args.last_out - out;
    const std::size_t out_count = left < outs_at_once ? left : outs_at_once;
    ForRowTiles<typename Isa::Lanes, kTileRows>(
        args.row_count, [&](auto rows, std::size_t /*tile*/, std::size_t row) KVD_INLINE_LAMBDA {
          constexpr int kRows = rows.value;
          float* y[kRows];
          for (std::size_t i = 0; i < kRows; ++i) y[i] = args.y[row + i] + out;
          DotRows<Isa, D, kRows, false>(weights + out * row_bytes, out_count,
                                        args.x + row * args.x_stride, args.x_stride,
                                        args.in_features, 1.0f, y);
        });
  }
}

// Computes a product with weights that are not quantised.
template <class Isa, class D>
KVD_ALWAYS_INLINE void PlainMatmul(const MatmulArgs& args) {
  if (args.outer_products) {
    OuterProduct<Isa, D>::Run(args);
  } else if (args.row_count <= Isa::Lanes::kNarrowRowsMax) {
    NarrowMatmul<Isa, D>(args);
  } else {
    WideMatmul<Isa, D>(args);
  }
}

}  // namespace kvd::kernels
