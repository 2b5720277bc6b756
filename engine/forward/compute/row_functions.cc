#include "engine/forward/compute/row_functions.h"

#include <cmath>

namespace kvd {

// ---- activations
void Exponentials(const float* x, std::size_t n, float* y) {
  for (std::size_t i = 0; i < n; ++i) y[i] = Exponential(x[i]);
}

void Logistics(const float* x, std::size_t n, float* y) {
  for (std::size_t i = 0; i < n; ++i) y[i] = Logistic(x[i]);
}

void Relu(const float* x, std::size_t n, float* y) {
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

void SquaredRelu(const float* x, std::size_t n, float* y) {
  for (std::size_t i = 0; i < n; ++i) {
    const float positive = x[i] < 0.0f ? 0.0f : x[i];
    y[i] = positive * positive;
  }
}

float Softplus(float x) {
  const float tail = std::log1p(Exponential(x < 0.0f ? x : -x));
  return x < 0.0f ? tail : x + tail;
}

// ---- layer norm
// Each sum over a row is computed in eight lanes, which are added in order.

namespace {

constexpr std::size_t kLanes = 8;

// Sum of term(i) for i in [0, n).
template <class Term>
double Sum(std::size_t n, const Term& term) {
  double lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  for (; i < n; ++i) sum += term(i);
  return sum;
}

}  // namespace

void LayerNorm(const float* x, const NormWeights& weights, std::size_t n, float epsilon, float* y) {
  const auto count = static_cast<double>(n);
  const double mean = Sum(n, [&](std::size_t i) { return static_cast<double>(x[i]); }) / count;
  const double variance = Sum(n,
                              [&](std::size_t i) {
                                const double distance = x[i] - mean;
                                return distance * distance;
                              }) /
                          count;
  const auto centre = static_cast<float>(mean);
  const auto inverse = static_cast<float>(1.0 / std::sqrt(variance + epsilon));
  for (std::size_t i = 0; i < n; ++i) y[i] = (x[i] - centre) * inverse;
  if (weights.weight == nullptr) return;
  if (weights.bias == nullptr) {
    for (std::size_t i = 0; i < n; ++i) y[i] *= weights.weight[i];
    return;
  }
  for (std::size_t i = 0; i < n; ++i) y[i] = y[i] * weights.weight[i] + weights.bias[i];
}

void ScaleToUnitLength(float* x, std::size_t n, float length_min) {
  const double squares =
      Sum(n, [&](std::size_t i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); });
  // std::max would lose a NaN of the length; the comparison with < keeps the NaN.
  const auto length = static_cast<float>(std::sqrt(squares));
  const float inverse = 1.0f / (length < length_min ? length_min : length);
  for (std::size_t i = 0; i < n; ++i) x[i] *= inverse;
}

}  // namespace kvd
