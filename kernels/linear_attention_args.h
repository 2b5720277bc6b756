// Arguments of the scans of linear attention, and the numeric form of their results: the
// recurrences of RWKV-6, RWKV-7 and the gated delta rule, each for one head of one sequence, token
// by token.
//
// The state of a head is [head_size keys, head_size values]. Values j are computed in parallel;
// sums over keys i start at 0 and take i in ascending order. A token's result depends only on the
// token itself and the tokens before it, so scans in pieces of any length give the same bits.
#pragma once

#include <cstddef>

namespace kvd::kernels {

// HeadRows: the rows of one sequence that a scan reads. A head's elements are at [first, first +
// head_size) of each row.
struct HeadRows {
  std::size_t row_count = 0;    // at least 1
  std::size_t head_size = 0;    // at least 1
  const float* from = nullptr;  // [head_size, head_size]: the state before the first row
  float* to = nullptr;          // the state after the last row; `from` or not overlapping it
};

// y = (S + diag(u) k v^T)^T r, then S = diag(w) S + k v^T   (Peng et al. 2024, "Eagle and Finch")
//   p = k[i] * v[j]; y[j] = fma(r[i], fma(u[i], p, S), y[j]); S = fma(S, w[i], p)
struct Wkv6 {
  const float* const* r = nullptr;  // [row_count] rows
  const float* const* k = nullptr;
  const float* const* v = nullptr;
  const float* const* w = nullptr;  // decay of each key, 0 to 1
  const float* u = nullptr;         // [head_size]: weight of the token itself
  float* const* y = nullptr;
  std::size_t first = 0;
};

// S = diag(w) S + b (S^T a)^T + k v^T, then y = S^T r   (Peng et al. 2025, "RWKV-7 Goose")
//   sa[j] = fma(a[i], S, sa[j]) for all keys, then
//   S = fma(S, w[i], fma(v[j], k[i], sa[j] * b[i])); y[j] = fma(S, r[i], y[j])
struct Wkv7 {
  const float* const* r = nullptr;
  const float* const* w = nullptr;
  const float* const* k = nullptr;
  const float* const* v = nullptr;
  const float* const* a = nullptr;
  const float* const* b = nullptr;
  float* const* y = nullptr;
  std::size_t first = 0;
};

// S = decay S, S = S + k (beta (v - S^T k))^T, then y = S^T q   (Yang et al. 2024, "Gated Delta
// Networks")
//   held[j] = fma(S, k[i], held[j]) for all keys; delta[j] = (v[j] - held[j] * decay) * beta; then
//   S = fma(k[i], delta[j], S * decay); y[j] = fma(S, q[i], y[j])
struct DeltaRule {
  const float* const* rows = nullptr;  // [row_count] rows that hold queries, keys and values
  std::size_t q_first = 0;
  std::size_t k_first = 0;
  std::size_t v_first = 0;
  const float* const* decay = nullptr;  // [row_count] rows; element `head` is used, 0 to 1
  const float* const* beta = nullptr;   // [row_count] rows; element `head` is used, 0 to 1
  std::size_t head = 0;
  float* const* y = nullptr;
  std::size_t y_first = 0;
};

}  // namespace kvd::kernels
