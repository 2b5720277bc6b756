// Scans of linear attention, as kernels/linear_attention_args.h states them.
#include "kernels/linear_attention_args.h"

#include <algorithm>
#include <cmath>

#include "kernels/scalar/functions.h"

namespace kvd::kernels::scalar {
namespace {

// The state is worked on where it goes.
void TakeState(const LinearAttentionPiece& piece) {
  if (piece.from != piece.to) {
    std::copy_n(piece.from, piece.head_size * piece.head_size, piece.to);
  }
}

// The sum over keys i of S[i][j] * weights[i].
float SumOverKeys(const LinearAttentionPiece& piece, std::size_t j, const float* weights) {
  float sum = 0.0f;
  for (std::size_t i = 0; i < piece.head_size; ++i) {
    sum = std::fma(weights[i], piece.to[i * piece.head_size + j], sum);
  }
  return sum;
}

}  // namespace

void ScanWkv6(const LinearAttentionPiece& piece, const Wkv6& head) {
  TakeState(piece);
  const std::size_t size = piece.head_size;
  for (std::size_t row = 0; row < piece.row_count; ++row) {
    const float* r = head.r[row] + head.first;
    const float* k = head.k[row] + head.first;
    const float* v = head.v[row] + head.first;
    const float* w = head.w[row] + head.first;
    for (std::size_t j = 0; j < size; ++j) {
      float y = 0.0f;
      for (std::size_t i = 0; i < size; ++i) {
        float& s = piece.to[i * size + j];
        const float p = k[i] * v[j];
        y = std::fma(r[i], std::fma(head.u[i], p, s), y);
        s = std::fma(s, w[i], p);
      }
      head.y[row][head.first + j] = y;
    }
  }
}

void ScanWkv7(const LinearAttentionPiece& piece, const Wkv7& head) {
  TakeState(piece);
  const std::size_t size = piece.head_size;
  for (std::size_t row = 0; row < piece.row_count; ++row) {
    const float* r = head.r[row] + head.first;
    const float* w = head.w[row] + head.first;
    const float* k = head.k[row] + head.first;
    const float* b = head.b[row] + head.first;
    for (std::size_t j = 0; j < size; ++j) {
      const float v = head.v[row][head.first + j];
      const float sa = SumOverKeys(piece, j, head.a[row] + head.first);
      float y = 0.0f;
      for (std::size_t i = 0; i < size; ++i) {
        float& s = piece.to[i * size + j];
        s = std::fma(s, w[i], std::fma(v, k[i], sa * b[i]));
        y = std::fma(s, r[i], y);
      }
      head.y[row][head.first + j] = y;
    }
  }
}

void ScanDeltaRule(const LinearAttentionPiece& piece, const DeltaRule& head) {
  TakeState(piece);
  const std::size_t size = piece.head_size;
  for (std::size_t row = 0; row < piece.row_count; ++row) {
    const float* q = head.rows[row] + head.q_first;
    const float* k = head.rows[row] + head.k_first;
    const float decay = head.decay[row][head.head];
    for (std::size_t j = 0; j < size; ++j) {
      const float held = SumOverKeys(piece, j, k);
      const float v = head.rows[row][head.v_first + j];
      const float delta = (v - held * decay) * head.beta[row][head.head];
      float y = 0.0f;
      for (std::size_t i = 0; i < size; ++i) {
        float& s = piece.to[i * size + j];
        s = std::fma(k[i], delta, s * decay);
        y = std::fma(s, q[i], y);
      }
      head.y[row][head.y_first + j] = y;
    }
  }
}

}  // namespace kvd::kernels::scalar
