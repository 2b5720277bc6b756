// y = x W^T for many rows and weights of f32, f16 and bf16 as a sum of outer products: the lanes of
// a vector are outputs, so an element of x is multiplied by sixteen outputs at once and no sum is
// taken across lanes (OuterDot of kernels/kernel_table.h).
//
// A panel of weights is decoded and transposed into the workspace, in groups of kOuts outputs:
// [groups][elements][kOuts]. Every row of x is then multiplied by the panel in tiles of kOuterRows
// x kOuts sums, which stay in registers. For each element, a tile reads kOuts weights and
// kOuterRows elements of x for kOuterRows * kOuts multiply-adds; a tile of kernels/lanes/matmul.h,
// whose lanes are elements, reads nearly twice as much, but its weights need no transposition.
#pragma once

#include "kernels/kernel_table.h"
#include "kernels/lanes/dispatch.h"
#include "kernels/lanes/static_for.h"
#include "kernels/panels.h"

namespace kvd::kernels {

// Outputs [first_out, last_out) and elements [first_element, first_element + element_count).
struct OuterPanel {
  const float* weights = nullptr;  // [groups of kOuts outputs][element_count][kOuts]
  std::size_t first_element = 0;
  std::size_t element_count = 0;
  std::size_t first_out = 0;
  std::size_t last_out = 0;
};

template <class Isa, class D>
struct OuterProduct {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  static constexpr int kVectors = L::kOuterVectors;
  static constexpr std::size_t kOuts = 16 * kVectors;
  static_assert(kOuterOutputs % kOuts == 0 && kOuterElements % 16 == 0);

  // Multiplies kRows rows, from `row` on, by the group of the panel that begins with output `out`.
  template <int kRows>
  static void Tile(const MatmulArgs& args, const OuterPanel& panel, std::size_t row,
                   std::size_t out) {
    V sums[kRows][kVectors];
    StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
      StaticFor<kVectors>([&](auto v) KVD_INLINE_LAMBDA { sums[r.value][v.value] = L::Zero(); });
    });
    const float* weights = panel.weights + (out - panel.first_out) * panel.element_count;
    const float* x = args.x + row * args.x_stride + panel.first_element;
    const std::size_t x_stride = args.x_stride;
    for (std::size_t i = 0; i < panel.element_count; ++i, weights += kOuts, ++x) {
      V w[kVectors];
      StaticFor<kVectors>([&](auto v)
                              KVD_INLINE_LAMBDA { w[v.value] = L::Load(weights + 16 * v.value); });
      StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
        const V element = L::Set(x[r.value * x_stride]);
        StaticFor<kVectors>([&](auto v) KVD_INLINE_LAMBDA {
          V& sum = sums[r.value][v.value];
          sum = L::Fma(element, w[v.value], sum);
        });
      });
    }
    const bool is_first = panel.first_element == 0;
    const std::size_t left = panel.last_out - out;
    StaticFor<kVectors>([&](auto v) KVD_INLINE_LAMBDA {
      constexpr std::size_t kFirst = 16 * v.value;
      if (left <= kFirst) return;
      const bool is_whole = left >= kFirst + 16;
      const auto mask = L::FirstLanes(is_whole ? 0 : left - kFirst);
      StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
        float* to = args.y[row + r.value] + out + kFirst;
        const V sum = sums[r.value][v.value];
        if (is_whole) {
          L::Store(to, is_first ? sum : L::Add(L::Load(to), sum));
        } else {
          L::Store(to, is_first ? sum : L::Add(L::Load(to, mask), sum), mask);
        }
      });
    });
  }

  // Decodes and transposes a panel. The last group is filled with copies of the last output.
  static void WritePanel(const MatmulArgs& args, const OuterPanel& panel, float* to) {
    const std::size_t row_bytes = DecoderRowBytes<D>(args.in_features);
    const auto* weights =
        static_cast<const std::uint8_t*>(args.weights) + DecoderRowBytes<D>(panel.first_element);
    for (std::size_t out = panel.first_out; out < panel.last_out; out += kOuts) {
      for (std::size_t part = 0; part < kOuts; part += 16) {
        const std::uint8_t* rows[16];
        for (std::size_t o = 0; o < 16; ++o) {
          const std::size_t from = out + part + o;
          rows[o] = weights + (from < panel.last_out ? from : panel.last_out - 1) * row_bytes;
        }
        WriteOutputs(rows, panel.element_count, to + part);
      }
      to += panel.element_count * kOuts;
    }
  }

  // Writes element i of sixteen weight rows to to[i * kOuts].
  static KVD_ALWAYS_INLINE void WriteOutputs(const std::uint8_t* const (&rows)[16], std::size_t n,
                                             float* to) {
    alignas(64) float decoded[16 * 16];
    std::size_t j = 0;
    for (; j + 16 <= n; j += 16) {
      for (std::size_t o = 0; o < 16; ++o) {
        L::Store(decoded + 16 * o, D::Group(rows[o] + j * D::kElementBytes));
      }
      L::Transpose16(decoded, 16, to + j * kOuts, kOuts);
    }
    if (j == n) return;
    for (std::size_t o = 0; o < 16; ++o) {
      L::Store(decoded + 16 * o, D::Group(rows[o] + j * D::kElementBytes, n - j));
    }
    alignas(64) float transposed[16 * 16];
    L::Transpose16(decoded, 16, transposed, 16);
    for (std::size_t i = 0; j + i < n; ++i) {
      L::Store(to + (j + i) * kOuts, L::Load(transposed + 16 * i));
    }
  }

  static void MultiplyPanel(const MatmulArgs& args, const OuterPanel& panel) {
    ForRowTiles<L, L::kOuterRows>(
        args.row_count, [&](auto rows, std::size_t /*tile*/, std::size_t row) KVD_INLINE_LAMBDA {
          for (std::size_t out = panel.first_out; out < panel.last_out; out += kOuts) {
            Tile<rows.value>(args, panel, row, out);
          }
        });
  }

  static void Run(const MatmulArgs& args) {
    OuterPanel panel;
    panel.weights = args.workspace;
    for (std::size_t out = args.first_out; out < args.last_out; out = panel.last_out) {
      const std::size_t outs_left = args.last_out - out;
      panel.first_out = out;
      panel.last_out = out + (outs_left < kOuterOutputs ? outs_left : kOuterOutputs);
      panel.first_element = 0;
      do {  // once without elements: the outputs are 0 then
        const std::size_t elements_left = args.in_features - panel.first_element;
        panel.element_count = elements_left < kOuterElements ? elements_left : kOuterElements;
        WritePanel(args, panel, args.workspace);
        MultiplyPanel(args, panel);
        panel.first_element += panel.element_count;
      } while (panel.first_element < args.in_features);
    }
  }
};

}  // namespace kvd::kernels
