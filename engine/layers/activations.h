// Functions of one number applied to rows, beyond those of the kernel table: the same bits on every
// machine, whatever the table. A NaN gives a NaN.
#pragma once

#include <cstddef>

#include "engine/portable_exp.h"

namespace kvd {

// e^x, relative error under 1e-6; as e^87 or e^-87 where |x| is larger.
inline float Exponential(float x) {
  const float magnitude = x < 0.0f ? x : -x;
  const float clamped = magnitude < kPortableExpBelow ? kPortableExpBelow : magnitude;
  // The difference is 0, or what is not a number stays so.
  const float e = PortableExpInRange<float, std::uint32_t>(clamped) + (clamped - clamped);
  return x > 0.0f ? 1.0f / e : e;
}

// 1 / (1 + e^-x)
inline float Logistic(float x) {
  const float e = Exponential(x < 0.0f ? x : -x);
  return x < 0.0f ? e / (1.0f + e) : 1.0f / (1.0f + e);
}

// y[i] = the function of x[i]; y may be x.
void Exponentials(const float* x, std::size_t n, float* y);
void Logistics(const float* x, std::size_t n, float* y);
// max(x, 0)
void Relu(const float* x, std::size_t n, float* y);
// max(x, 0)^2 (So et al. 2021)
void SquaredRelu(const float* x, std::size_t n, float* y);
// ln(1 + e^x), without overflow.
float Softplus(float x);

}  // namespace kvd
