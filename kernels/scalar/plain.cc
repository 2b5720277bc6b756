// Plain attention, as kernels/kernel_table.h defines it.
#include <algorithm>

#include "kernels/plain_exp.h"
#include "kernels/scalar/dot.h"
#include "kernels/scalar/functions.h"

namespace kvd::kernels::scalar {
namespace {

float PlainDot(const float* a, const float* b, std::size_t n) {
  const std::size_t whole = n / 64 * 64;
  float sums[64] = {};
  for (std::size_t j = 0; j < whole; ++j) sums[j % 64] = std::fma(a[j], b[j], sums[j % 64]);
  for (std::size_t i = 0; i < 32; ++i) sums[i] += sums[i + 32];
  PartialSums last;
  for (std::size_t i = 0; i < 16; ++i) last.s[i] = sums[i] + sums[i + 16];
  float total = last.Total();
  std::size_t j = whole;
  for (; j < n / 8 * 8; ++j) {
    const float product = a[j] * b[j];
    total += product;
  }
  for (; j < n; ++j) total = std::fma(a[j], b[j], total);
  return total;
}

float PlainExp(float x) {
  if (x < kPlainBelow) x = kPlainBelow;  // false for a NaN
  const float z = std::fma(x, kPlainLog2E, kPlainRound);
  const float n = z - kPlainRound;
  float b = std::fma(-n, kPlainLn2High, x);
  b = std::fma(-n, kPlainLn2Low, b);
  const float u = b * b;
  const float high = std::fma(kPlainC4, b, kPlainC3);
  const float middle = std::fma(high, u, std::fma(kPlainC2, b, kPlainC1));
  const float j = std::fma(middle, u, std::fma(kPlainC0, b, 1.0f));
  if (n != n) return n;
  return std::ldexp(j, static_cast<int>(n));
}

}  // namespace

void PlainDots(const float* a, const float* rows, std::size_t stride, std::size_t count,
               std::size_t n, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = PlainDot(a, rows + i * stride, n);
}

void LaneDots(const float* a, const float* rows, std::size_t stride, std::size_t count,
              std::size_t n, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    PartialSums sums;
    AddProducts(a, rows + i * stride, n, &sums);
    out[i] = sums.Total();
  }
}

void PlainSoftmax(float* x, std::size_t n, std::size_t lane_count) {
  float max = x[0];
  for (std::size_t i = 1; i < n; ++i) max = x[i] > max ? x[i] : max;
  double sum = 0;
  for (std::size_t i = 0; i < lane_count; i += 16) {
    PartialSums group;
    for (std::size_t j = 0; j < 16; ++j) group.s[j] = x[i + j] = PlainExp(x[i + j] - max);
    sum += static_cast<double>(group.Total());
  }
  for (std::size_t i = lane_count; i < n; ++i) {
    x[i] = static_cast<float>(std::exp(static_cast<double>(x[i] - max)));
    sum += static_cast<double>(x[i]);
  }
  const float inverse = static_cast<float>(1.0 / sum);
  for (std::size_t i = 0; i < n; ++i) x[i] *= inverse;
}

}  // namespace kvd::kernels::scalar
