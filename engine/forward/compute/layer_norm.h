// Layer normalisation (Ba et al. 2016), and normalisation of a vector to length 1.
#pragma once

#include <cstddef>

#include "engine/model/weight_view.h"

namespace kvd {

// y[i] = (x[i] - mean) / sqrt(variance + epsilon) * weight[i] + bias[i], without the weight factor
// if the weights are absent and without the bias if it is absent. Mean and variance are summed in
// double. y may be x. REQUIRES: n > 0.
void LayerNorm(const float* x, const NormWeights& weights, std::size_t n, float epsilon, float* y);

// x[i] = x[i] / max(length of x, length_min). The squares are summed in double.
void ScaleToUnitLength(float* x, std::size_t n, float length_min);

}  // namespace kvd
