// Layer normalisation (Ba et al. 2016), and that of a vector to length 1.
#pragma once

#include <cstddef>

namespace kvd {

struct LayerNormWeights {
  const float* weight = nullptr;  // [elements]
  const float* bias = nullptr;    // [elements]
};

// y[i] = (x[i] - mean) / sqrt(variance + epsilon) * weight[i] + bias[i]; without weights, the first
// factor alone. Sums are in double. y may be x. n > 0.
void LayerNorm(const float* x, const LayerNormWeights& weights, std::size_t n, float epsilon,
               float* y);

// x[i] / max(length of x, length_min), in place; the length's squares are summed in double.
void ScaleToUnitLength(float* x, std::size_t n, float length_min);

}  // namespace kvd
