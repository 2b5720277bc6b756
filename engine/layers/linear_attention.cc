#include "engine/layers/linear_attention.h"

#include <algorithm>

#include "shm/check.h"

namespace kvd {
namespace {

// The state is worked on where it goes.
void TakeState(const LinearAttentionPiece& piece) {
  KVD_ASSERT(piece.head_size >= 1 && piece.head_size <= kLinearHeadSizeMax);
  const std::size_t floats = piece.head_size * piece.head_size;
  if (piece.from == nullptr) {
    std::fill_n(piece.to, floats, 0.0f);
  } else {
    std::copy_n(piece.from, floats, piece.to);
  }
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
    float y[kLinearHeadSizeMax] = {};
    for (std::size_t i = 0; i < size; ++i) {
      float* state = piece.to + i * size;
      const float ki = k[i], ri = r[i], wi = w[i], ui = head.u[i];
      for (std::size_t j = 0; j < size; ++j) {
        const float kv = ki * v[j];
        y[j] += ri * (ui * kv + state[j]);
        state[j] = state[j] * wi + kv;
      }
    }
    std::copy_n(y, size, head.y[row] + head.first);
  }
}

void ScanWkv7(const LinearAttentionPiece& piece, const Wkv7& head) {
  TakeState(piece);
  const std::size_t size = piece.head_size;
  for (std::size_t row = 0; row < piece.row_count; ++row) {
    const float* r = head.r[row] + head.first;
    const float* w = head.w[row] + head.first;
    const float* k = head.k[row] + head.first;
    const float* v = head.v[row] + head.first;
    const float* a = head.a[row] + head.first;
    const float* b = head.b[row] + head.first;
    float sa[kLinearHeadSizeMax] = {};
    for (std::size_t i = 0; i < size; ++i) {
      const float* state = piece.to + i * size;
      const float ai = a[i];
      for (std::size_t j = 0; j < size; ++j) sa[j] += ai * state[j];
    }
    float y[kLinearHeadSizeMax] = {};
    for (std::size_t i = 0; i < size; ++i) {
      float* state = piece.to + i * size;
      const float wi = w[i], ki = k[i], bi = b[i], ri = r[i];
      for (std::size_t j = 0; j < size; ++j) {
        state[j] = state[j] * wi + v[j] * ki + sa[j] * bi;
        y[j] += state[j] * ri;
      }
    }
    std::copy_n(y, size, head.y[row] + head.first);
  }
}

void ScanDeltaRule(const LinearAttentionPiece& piece, const DeltaRule& head) {
  TakeState(piece);
  const std::size_t size = piece.head_size;
  for (std::size_t row = 0; row < piece.row_count; ++row) {
    const float* q = head.rows[row] + head.q_first;
    const float* k = head.rows[row] + head.k_first;
    const float* v = head.rows[row] + head.v_first;
    const float decay = head.decay[row][head.head];
    const float beta = head.beta[row][head.head];
    float held[kLinearHeadSizeMax] = {};
    for (std::size_t i = 0; i < size; ++i) {
      float* state = piece.to + i * size;
      const float ki = k[i];
      for (std::size_t j = 0; j < size; ++j) {
        state[j] *= decay;
        held[j] += state[j] * ki;
      }
    }
    float delta[kLinearHeadSizeMax];
    for (std::size_t j = 0; j < size; ++j) delta[j] = (v[j] - held[j]) * beta;
    float y[kLinearHeadSizeMax] = {};
    for (std::size_t i = 0; i < size; ++i) {
      float* state = piece.to + i * size;
      const float ki = k[i], qi = q[i];
      for (std::size_t j = 0; j < size; ++j) {
        state[j] += ki * delta[j];
        y[j] += state[j] * qi;
      }
    }
    std::copy_n(y, size, head.y[row] + head.y_first);
  }
}

}  // namespace kvd
