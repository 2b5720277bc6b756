// Operations on rows of f32, as the numeric form defines them.
#include "kernels/gelu_table.h"
#include "kernels/half.h"
#include "kernels/scalar/dot.h"
#include "kernels/scalar/functions.h"

namespace kvd::kernels::scalar {

void RmsNorm(const float* x, const float* weight, std::size_t n, float epsilon, float* y) {
  if (n == 0) return;
  PartialSumsOf<double> squares;
  for (std::size_t i = 0; i < n; ++i) {
    squares.s[i % 16] += static_cast<double>(x[i] * x[i]);
  }
  const float mean = static_cast<float>(squares.Total()) / static_cast<float>(n);
  const float inverse = 1.0f / std::sqrt(mean + epsilon);
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] * inverse * weight[i];
}

void Rope(float* x, std::size_t head_count, std::size_t head_dim, std::size_t rotated_dim,
          bool interleaved, const float* cosine, const float* sine) {
  const std::size_t half = rotated_dim / 2;
  for (std::size_t h = 0; h < head_count; ++h) {
    float* head = x + h * head_dim;
    for (std::size_t i = 0; i < half; ++i) {
      float* a = head + (interleaved ? 2 * i : i);
      float* b = interleaved ? a + 1 : a + half;
      const float x0 = *a, x1 = *b;
      *a = x0 * cosine[i] - x1 * sine[i];
      *b = x0 * sine[i] + x1 * cosine[i];
    }
  }
}

void SiluMultiply(const float* gate, const float* up, std::size_t n, float* y) {
  for (std::size_t i = 0; i < n; ++i) y[i] = gate[i] / (1.0f + Exp(-gate[i])) * up[i];
}

void GeluMultiply(const float* gate, const float* up, std::size_t n, float* y) {
  const std::uint16_t* table = GeluTable();
  for (std::size_t i = 0; i < n; ++i) {
    // The comparisons are false for a NaN, so that a NaN stays a NaN.
    float inside = gate[i];
    if (inside > kGeluBound) inside = kGeluBound;
    if (inside < -kGeluBound) inside = -kGeluBound;
    float beyond = gate[i] - kGeluBound;
    if (beyond < 0.0f) beyond = 0.0f;
    y[i] = (F32FromF16(table[F16FromF32(inside)]) + beyond) * up[i];
  }
}

void Softcap(const float* x, float cap, std::size_t n, float* y) {
  const float inverse = 1.0f / cap;
  for (std::size_t i = 0; i < n; ++i) y[i] = Tanh(x[i] * inverse) * cap;
}

void Add(const float* a, const float* b, std::size_t n, float* y) {
  for (std::size_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

void Scale(const float* a, float factor, std::size_t n, float* y) {
  for (std::size_t i = 0; i < n; ++i) y[i] = a[i] * factor;
}

bool AllFinite(const float* x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    if (!IsFinite(x[i])) return false;
  }
  return true;
}

std::size_t Argmax(const float* x, std::size_t n) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < n; ++i) {
    if (x[i] > x[best]) best = i;
  }
  return best;
}

}  // namespace kvd::kernels::scalar
