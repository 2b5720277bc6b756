// Products with f16 and bf16 weights, with both factors rounded to bf16, in pairs of elements.
// avx512::Matmul computes the other products.
#include "kernels/avx512/functions.h"
#include "kernels/avx512bf16/functions.h"
#include "kernels/avx512bf16/half_rows.h"
#include "kernels/avx512bf16/pairs.h"

namespace kvd::kernels::avx512bf16 {
namespace {

constexpr std::size_t kTileRows = 6;

// Multiplies kRows rows of x by two groups of a panel.
template <int kRows>
void WideTile(const std::uint8_t* panel, std::size_t n, const std::uint8_t* x, std::size_t x_stride,
              float* const* y, std::size_t out_count) {
  const std::size_t group_bytes = n * 2 * 16;
  V sums[kRows][2];
  StaticFor<kRows>([&](auto r)
                       KVD_INLINE_LAMBDA { sums[r.value][0] = sums[r.value][1] = Lanes::Zero(); });
  for (std::size_t j = 0; j < n; j += 2, panel += 64) {
    const I w0 = _mm512_loadu_si512(panel), w1 = _mm512_loadu_si512(panel + group_bytes);
    StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
      int pair = 0;
      __builtin_memcpy(&pair, x + r.value * x_stride + 2 * j, sizeof pair);
      const I row = _mm512_set1_epi32(pair);
      sums[r.value][0] = AddPairs(sums[r.value][0], w0, row);
      sums[r.value][1] = AddPairs(sums[r.value][1], w1, row);
    });
  }
  StaticFor<2>([&](auto g) KVD_INLINE_LAMBDA {
    const std::size_t before = 16 * g.value;
    const std::size_t left = out_count > before ? out_count - before : 0;
    const Lanes::Mask mask = left >= 16 ? Lanes::Mask{0xffff} : Lanes::FirstLanes(left);
    StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
      Lanes::Store(y[r.value] + before, sums[r.value][g.value], mask);
    });
  });
}

template <class Pairs>
void WideMatmul(const MatmulArgs& args) {
  const std::size_t n = Bf16Padded(args.in_features), x_stride = Bf16RowBytes(args.in_features);
  const std::size_t panel_outs = Bf16PanelOuts(args.in_features), group_bytes = n * 2 * 16;
  auto* const panel = reinterpret_cast<std::uint8_t*>(args.workspace);
  const auto* const x = static_cast<const std::uint8_t*>(args.bf16_x);
  const std::size_t tile_count = (args.row_count + kTileRows - 1) / kTileRows;
  for (std::size_t first = args.first_out; first < args.last_out; first += panel_outs) {
    const std::size_t left = args.last_out - first;
    const std::size_t last = first + (left < panel_outs ? left : panel_outs);
    const std::size_t group_count = (last - first + 31) / 32 * 2;
    for (std::size_t g = 0; g < group_count; ++g) {
      avx512::PutHalves<Pairs>(args, first + 16 * g, last, panel + g * group_bytes);
    }
    for (std::size_t t = 0; t < tile_count; ++t) {
      const std::size_t row = args.row_count * t / tile_count;
      const std::size_t rows = args.row_count * (t + 1) / tile_count - row;
      for (std::size_t out = first; out < last; out += 32) {
        float* y[kTileRows];
        for (std::size_t r = 0; r < rows; ++r) y[r] = args.y[row + r] + out;
        StaticFor<kTileRows>([&](auto r) KVD_INLINE_LAMBDA {
          constexpr int kRows = decltype(r)::value + 1;
          if (rows != kRows) return;
          WideTile<kRows>(panel + (out - first) / 16 * group_bytes, n, x + row * x_stride, x_stride,
                          y, last - out);
        });
      }
    }
  }
}

template <class Pairs>
void MatmulOfPairs(const MatmulArgs& args) {
  if (args.row_count > kFewRowsMax) return WideMatmul<Pairs>(args);
  StaticFor<kFewRowsMax>([&](auto r) KVD_INLINE_LAMBDA {
    constexpr int kRows = decltype(r)::value + 1;
    if (args.row_count == kRows) FewRows<Pairs, kRows>(args);
  });
}

}  // namespace

void Matmul(const MatmulArgs& args) {
  if (args.bf16_x == nullptr || args.first_out >= args.last_out) return avx512::Matmul(args);
  if (args.weight_type == DataType::kBF16) return MatmulOfPairs<avx512::PairsOfBf16>(args);
  if (args.weight_type == DataType::kF16) return MatmulOfPairs<avx512::PairsOfF16<Round>>(args);
  avx512::Matmul(args);
}

void RoundRows(const float* x, std::size_t x_stride, std::size_t row_count, std::size_t n,
               void* to) {
  auto* row = static_cast<std::uint8_t*>(to);
  for (std::size_t r = 0; r < row_count; ++r, x += x_stride, row += Bf16RowBytes(n)) {
    for (std::size_t j = 0; j < n; j += 32) {
      const std::size_t left = n - j;
      const auto load = [&](std::size_t first) KVD_INLINE_LAMBDA {
        if (left >= first + 16) return Lanes::Load(x + j + first);
        return Lanes::Load(x + j + (left > first ? first : 0),
                           Lanes::FirstLanes(left > first ? left - first : 0));
      };
      _mm512_storeu_si512(row + 2 * j, Round::Of(load(0), load(16)));
    }
  }
}

}  // namespace kvd::kernels::avx512bf16
