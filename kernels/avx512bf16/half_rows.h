// Products of a few rows of x, rounded to bf16, with f16 and bf16 weights. Products of a few rows
// have the same order of sums as the products of many rows (matmul.cc) but use no panel in memory.
// Sixteen outputs times sixteen pairs are transposed in registers and multiplied by all rows of x.
#pragma once

#include "kernels/avx512bf16/pairs.h"

namespace kvd::kernels::avx512bf16 {

inline constexpr std::size_t kFewRowsMax = 8;

template <class Pairs, int kRows>
void FewRows(const MatmulArgs& args) {
  const std::size_t x_stride = Bf16RowBytes(args.in_features);
  for (std::size_t out = args.first_out; out < args.last_out; out += 16) {
    const avx512::GroupOfHalves<Pairs> group{args, out, args.last_out};
    Ahead ahead = group.Next();
    const auto* x = static_cast<const std::uint8_t*>(args.bf16_x);
    V sums[kRows];
    StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA { sums[r.value] = Lanes::Zero(); });
    for (std::size_t j = 0; j < args.in_features; j += 32, x += 64) {
      I pairs[16];
      group.Load(j, pairs);
      ahead.Step();
      StaticFor<16>([&](auto p) KVD_INLINE_LAMBDA {
        StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
          int pair = 0;
          __builtin_memcpy(&pair, x + r.value * x_stride + 4 * p.value, sizeof pair);
          sums[r.value] = AddPairs(sums[r.value], pairs[p.value], _mm512_set1_epi32(pair));
        });
      });
    }
    const std::size_t left = args.last_out - out;
    const Lanes::Mask mask = left >= 16 ? Lanes::Mask{0xffff} : Lanes::FirstLanes(left);
    StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
      Lanes::Store(args.y[r.value] + out, sums[r.value], mask);
    });
  }
}

}  // namespace kvd::kernels::avx512bf16
