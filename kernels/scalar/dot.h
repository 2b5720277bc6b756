// The 16 partial sums of the numeric form, Exp and Tanh, in plain code. Do not include this header
// in files with special -m flags.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>

#include "kernels/data_type.h"
#include "kernels/form_constants.h"
#include "kernels/quantized_row.h"

// KVD_FUSED: compiles a function twice, with and without the instruction for a fused multiply-add.
//
// The program chooses at its start what the machine has. Without the instruction, std::fma is a
// call that computes the same bits. With clang, which compiles the sanitizer builds, there is one
// form: a sanitizer is not ready when the choice is made.

#if defined(__clang__) || defined(__FMA__)
#define KVD_FUSED
#else
#define KVD_FUSED __attribute__((target_clones("fma", "default")))
#endif

namespace kvd::kernels::scalar {

// Element j of a sum is added to s[j % 16]; Total() adds the sixteen in the fixed tree.
template <class T>
struct PartialSumsOf {
  T s[16] = {};

  T Total() const {
    T t[8];
    for (std::size_t i = 0; i < 8; ++i) t[i] = s[i] + s[i + 8];
    for (std::size_t i = 0; i < 4; ++i) t[i] += t[i + 4];
    for (std::size_t i = 0; i < 2; ++i) t[i] += t[i + 2];
    return t[0] + t[1];
  }
};
using PartialSums = PartialSumsOf<float>;

// sums += the products of n more elements. REQUIRES: the number of elements before them is a
// multiple of 16.
inline void AddProducts(const float* a, const float* b, std::size_t n, PartialSums* sums) {
  for (std::size_t j = 0; j < n; ++j) sums->s[j % 16] = std::fma(a[j], b[j], sums->s[j % 16]);
}

inline float Exp(float x) {
  // The comparisons are false for a NaN, so that a NaN stays a NaN.
  if (x > kExpAbove) x = kExpAbove;
  if (x < kExpBelow) x = kExpBelow;
  float t = std::fma(x, kLog2E, kExpRound);
  const std::uint32_t n = std::bit_cast<std::uint32_t>(t) - std::bit_cast<std::uint32_t>(kExpRound);
  t -= kExpRound;
  float r = std::fma(t, -kLn2High, x);
  r = std::fma(t, -kLn2Low, r);
  float p = kExpC6;
  for (const float c : {kExpC5, kExpC4, kExpC3, kExpC2, 1.0f, 1.0f}) p = std::fma(p, r, c);
  const std::uint32_t half = static_cast<std::uint32_t>(static_cast<std::int32_t>(n) >> 1);
  const float first = std::bit_cast<float>((half + 127) << 23);
  const float second = std::bit_cast<float>((n - half + 127) << 23);
  return (p * first) * second;
}

inline float Tanh(float x) {
  double d = 2.0 * static_cast<double>(x);
  if (d > kTanhBound) d = kTanhBound;
  if (d < -kTanhBound) d = -kTanhBound;
  double t = std::fma(d, kTanhLog2E, kTanhRound);
  const std::uint64_t n =
      std::bit_cast<std::uint64_t>(t) - std::bit_cast<std::uint64_t>(kTanhRound);
  t -= kTanhRound;
  double r = std::fma(t, -kTanhLn2High, d);
  r = std::fma(t, -kTanhLn2Low, r);
  double c = kTanhC[0];
  for (std::size_t i = 1; i < std::size(kTanhC); ++i) c = std::fma(c, r, kTanhC[i]);
  const double q = std::fma(c * r, r, r);
  const double power = std::bit_cast<double>((n + 1023) << 52);
  const double m = std::fma(q, power, power - 1.0);
  return static_cast<float>(m / (m + 2.0));
}

// QuantDot of the numeric form (kernels/kernel_table.h), in plain code.

// weights: a row of n elements of a quantised type.
float QuantDot(DataType type, const void* weights, const QuantizedRow& x, std::size_t n);

}  // namespace kvd::kernels::scalar
