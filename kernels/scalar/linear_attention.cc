// Scans of linear attention, as kernels/linear_attention_args.h defines them.
#include "kernels/linear_attention_args.h"

#include <algorithm>
#include <cmath>

#include "kernels/scalar/functions.h"

namespace kvd::kernels::scalar {
namespace {

// Copies the state to its destination, where it is updated in place.
void TakeState(const HeadRows& head_rows) {
  if (head_rows.from != head_rows.to) {
    std::copy_n(head_rows.from, head_rows.head_size * head_rows.head_size, head_rows.to);
  }
}

// The sum over keys i of S[i][j] * weights[i].
float SumOverKeys(const HeadRows& head_rows, std::size_t j, const float* weights) {
  float sum = 0.0f;
  for (std::size_t i = 0; i < head_rows.head_size; ++i) {
    sum = std::fma(weights[i], head_rows.to[i * head_rows.head_size + j], sum);
  }
  return sum;
}

}  // namespace

void ScanWkv6(const HeadRows& head_rows, const Wkv6& head) {
  TakeState(head_rows);
  const std::size_t size = head_rows.head_size;
  for (std::size_t row = 0; row < head_rows.row_count; ++row) {
    const float* r = head.r[row] + head.first;
    const float* k = head.k[row] + head.first;
    const float* v = head.v[row] + head.first;
    const float* w = head.w[row] + head.first;
    for (std::size_t j = 0; j < size; ++j) {
      float y = 0.0f;
      for (std::size_t i = 0; i < size; ++i) {
        float& s = head_rows.to[i * size + j];
        const float p = k[i] * v[j];
        y = std::fma(r[i], std::fma(head.u[i], p, s), y);
        s = std::fma(s, w[i], p);
      }
      head.y[row][head.first + j] = y;
    }
  }
}

void ScanWkv7(const HeadRows& head_rows, const Wkv7& head) {
  TakeState(head_rows);
  const std::size_t size = head_rows.head_size;
  for (std::size_t row = 0; row < head_rows.row_count; ++row) {
    const float* r = head.r[row] + head.first;
    const float* w = head.w[row] + head.first;
    const float* k = head.k[row] + head.first;
    const float* b = head.b[row] + head.first;
    for (std::size_t j = 0; j < size; ++j) {
      const float v = head.v[row][head.first + j];
      const float sa = SumOverKeys(head_rows, j, head.a[row] + head.first);
      float y = 0.0f;
      for (std::size_t i = 0; i < size; ++i) {
        float& s = head_rows.to[i * size + j];
        s = std::fma(s, w[i], std::fma(v, k[i], sa * b[i]));
        y = std::fma(s, r[i], y);
      }
      head.y[row][head.first + j] = y;
    }
  }
}

void ScanDeltaRule(const HeadRows& head_rows, const DeltaRule& head) {
  TakeState(head_rows);
  const std::size_t size = head_rows.head_size;
  for (std::size_t row = 0; row < head_rows.row_count; ++row) {
    const float* q = head.rows[row] + head.q_first;
    const float* k = head.rows[row] + head.k_first;
    const float decay = head.decay[row][head.head];
    for (std::size_t j = 0; j < size; ++j) {
      const float held = SumOverKeys(head_rows, j, k);
      const float v = head.rows[row][head.v_first + j];
      const float delta = (v - held * decay) * head.beta[row][head.head];
      float y = 0.0f;
      for (std::size_t i = 0; i < size; ++i) {
        float& s = head_rows.to[i * size + j];
        s = std::fma(k[i], delta, s * decay);
        y = std::fma(s, q[i], y);
      }
      head.y[row][head.y_first + j] = y;
    }
  }
}

}  // namespace kvd::kernels::scalar
