#include "engine/forward/compute/activations.h"

#include <cmath>

namespace kvd {

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

}  // namespace kvd
