// Functions that are applied to rows of floats: activations and layer norms.
#pragma once

#include <cstddef>

#include "engine/forward/compute/portable_math.h"
#include "engine/model/weight_view.h"

namespace kvd {

// Functions of one number, applied to rows, in addition to those of the kernel table. The functions
// give the same bits on every machine and with every kernel table. The function of a NaN is a NaN.

// e^x with a relative error under 1e-6. For x > 87 the result is e^87, for x < -87 it is e^-87.
inline float Exponential(float x) {
  const float magnitude = x < 0.0f ? x : -x;
  const float clamped = magnitude < kPortableExpBelow ? kPortableExpBelow : magnitude;
  // clamped - clamped is 0, or NaN if x is NaN.
  const float e = PortableExpInRange<float, std::uint32_t>(clamped) + (clamped - clamped);
  return x > 0.0f ? 1.0f / e : e;
}

// 1 / (1 + e^-x)
inline float Logistic(float x) {
  const float e = Exponential(x < 0.0f ? x : -x);
  return x < 0.0f ? e / (1.0f + e) : 1.0f / (1.0f + e);
}

// y[i] = f(x[i]); y may be x.
void Exponentials(const float* x, std::size_t n, float* y);
void Logistics(const float* x, std::size_t n, float* y);
// max(x, 0)
void Relu(const float* x, std::size_t n, float* y);
// max(x, 0)^2 (So et al. 2021)
void SquaredRelu(const float* x, std::size_t n, float* y);
// ln(1 + e^x), computed without overflow.
float Softplus(float x);

// Layer normalisation (Ba et al. 2016), and normalisation of a vector to length 1.

// y[i] = (x[i] - mean) / sqrt(variance + epsilon) * weight[i] + bias[i], without the weight factor
// if the weights are absent and without the bias if it is absent. Mean and variance are summed in
// double. y may be x. REQUIRES: n > 0.
void LayerNorm(const float* x, const NormWeights& weights, std::size_t n, float epsilon, float* y);

// x[i] = x[i] / max(length of x, length_min). The squares are summed in double.
void ScaleToUnitLength(float* x, std::size_t n, float length_min);

}  // namespace kvd
