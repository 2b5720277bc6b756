// Plain attention, which computes all scores of a query at once.
#pragma once

#include <cstddef>

#include "kernels/form_constants.h"
#include "kernels/lanes/static_for.h"

namespace kvd::kernels {

template <class Isa>
void PlainDots(const float* a, const float* rows, std::size_t stride, std::size_t count,
               std::size_t n, float* out) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  const std::size_t whole = n / 64 * 64;
  const std::size_t rounded = n / 8 * 8;
  for (std::size_t i = 0; i < count; ++i, rows += stride) {
    V sums[4] = {L::Zero(), L::Zero(), L::Zero(), L::Zero()};
    for (std::size_t j = 0; j < whole; j += 64) {
      StaticFor<4>([&](auto k) KVD_INLINE_LAMBDA {
        const std::size_t at = j + 16 * k.value;
        sums[k.value] = L::Fma(L::Load(a + at), L::Load(rows + at), sums[k.value]);
      });
    }
    float total = L::Total(L::Add(L::Add(sums[0], sums[2]), L::Add(sums[1], sums[3])));
    std::size_t j = whole;
    for (; j < rounded; ++j) {
      const float product = a[j] * rows[j];
      total += product;
    }
    for (; j < n; ++j) total = __builtin_fmaf(a[j], rows[j], total);
    out[i] = total;
  }
}

template <class Isa>
void LaneDots(const float* a, const float* rows, std::size_t stride, std::size_t count,
              std::size_t n, float* out) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  for (std::size_t i = 0; i < count; ++i, rows += stride) {
    V sums = L::Zero();
    std::size_t j = 0;
    for (; j + 16 <= n; j += 16) sums = L::Fma(L::Load(a + j), L::Load(rows + j), sums);
    if (j < n) {
      const auto mask = L::FirstLanes(n - j);
      sums = L::Fma(L::Load(a + j, mask), L::Load(rows + j, mask), sums, mask);
    }
    out[i] = L::Total(sums);
  }
}

template <class L>
KVD_ALWAYS_INLINE typename L::V PlainExp(typename L::V x) {
  using V = typename L::V;
  x = L::Max(L::Set(kPlainBelow), x);  // Max returns the second operand if one is a NaN
  const V z = L::Fma(x, L::Set(kPlainLog2E), L::Set(kPlainRound));
  const V n = L::Sub(z, L::Set(kPlainRound));
  V b = L::Fma(n, L::Set(-kPlainLn2High), x);
  b = L::Fma(n, L::Set(-kPlainLn2Low), b);
  const V u = L::Mul(b, b);
  const V high = L::Fma(L::Set(kPlainC4), b, L::Set(kPlainC3));
  const V middle = L::Fma(high, u, L::Fma(L::Set(kPlainC2), b, L::Set(kPlainC1)));
  const V j = L::Fma(middle, u, L::Fma(L::Set(kPlainC0), b, L::Set(1.0f)));
  return L::TimesPowerOfTwo(j, n);
}

template <class Isa>
void PlainSoftmax(float* x, std::size_t n, std::size_t lane_count) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  float max = x[0];
  for (std::size_t i = 1; i < n; ++i) max = x[i] > max ? x[i] : max;
  double sum = 0;
  for (std::size_t i = 0; i < lane_count; i += 16) {
    const V e = PlainExp<L>(L::Sub(L::Load(x + i), L::Set(max)));
    L::Store(x + i, e);
    sum += static_cast<double>(L::Total(e));
  }
  for (std::size_t i = lane_count; i < n; ++i) {
    x[i] = static_cast<float>(__builtin_exp(static_cast<double>(x[i] - max)));
    sum += static_cast<double>(x[i]);
  }
  const float inverse = static_cast<float>(1.0 / sum);
  for (std::size_t i = 0; i < n; ++i) x[i] *= inverse;
}

}  // namespace kvd::kernels
