// Arguments of the scans of state-space layers and of linear attention.
#pragma once

#include <cstddef>

namespace kvd::kernels {

// Arguments of the scans of state-space layers, and the numeric form of their results.
//
// Softplus(x) = max(x, 0) + l. l = log(1 + e) with e = Exp(-|x|) is computed as twice the inverse
// hyperbolic tangent of s = e / (2 + e), s <= 1/3:
//   q = s * s; p = kSoftplusC[0]; p = fma(p, q, kSoftplusC[i]), i ascending    1/13 ... 1/3
//   t = s + s; l = fma(t * q, p, t)
// The result is within 3 ulp of the true value; only a NaN gives a NaN.
inline constexpr float kSoftplusC[] = {1.0f / 13, 1.0f / 11, 1.0f / 9,
                                       1.0f / 7,  1.0f / 5,  1.0f / 3};

// Rows of one sequence: element i of row r is rows[r][first + i].
struct ScanRows {
  const float* const* rows = nullptr;
  std::size_t first = 0;
};

// For each row r and each channel i, token by token:
//   step = Softplus(dt[r][i])
//   state[i][k] = fma(b[r][k], x[r][i] * step, state[i][k] * Exp(step * a[i][k]))
//   y[r][i] = gate / (1 + Exp(-gate)) * fma(x[r][i], d[i], Dot(state[i], c[r])), gate = gate[r][i]
// A row's result depends only on the row itself and the rows before it, so scans in pieces of any
// length give the same bits.
struct ChannelScan {
  std::size_t row_count = 0;
  std::size_t channel_count = 0;
  std::size_t state_count = 0;  // per channel
  ScanRows dt, x, gate;         // by channel
  ScanRows b, c;                // by state
  const float* a = nullptr;     // [channel_count, state_count]
  const float* d = nullptr;     // [channel_count]
  float* state = nullptr;     // [channel_count, state_count]: before the first row, after the last
  float* const* y = nullptr;  // [row_count] rows
  std::size_t y_first = 0;
};

// The scan of a head whose channels share one step and one decay:
//   step = Softplus(dt[r][0] + dt_bias), decay = Exp(step * a)
//   state[i][k] = fma(b[r][k], x[r][i] * step, state[i][k] * decay)
//   y[r][i] = gate / (1 + Exp(-gate)) * fma(x[r][i], d, Dot(state[i], c[r]))
struct HeadScan {
  std::size_t row_count = 0;
  std::size_t channel_count = 0;  // of the head
  std::size_t state_count = 0;
  ScanRows dt;       // one number
  ScanRows x, gate;  // by channel
  ScanRows b, c;     // by state
  float dt_bias = 0;
  float a = 0;
  float d = 0;
  float* state = nullptr;  // as ChannelScan::state
  float* const* y = nullptr;
  std::size_t y_first = 0;
};

// A convolution over the tokens, for each channel separately:
//   z = bias[c]; z = fma(taps[c][i], x[row + i - (width - 1)][c], z), i ascending
//   y[row][c] = z, or z / (1 + Exp(-z)) if is_activated
// The rows before the first row of x are `before`, oldest first.
struct ChannelConvolution {
  std::size_t row_count = 0;
  std::size_t channel_count = 0;
  std::size_t width = 0;                 // at least 1
  const float* taps = nullptr;           // [channel_count, width]
  const float* bias = nullptr;           // [channel_count] or null
  const float* const* before = nullptr;  // [width - 1] rows, at their first channel
  ScanRows x;
  float* const* y = nullptr;  // no row of y is a row of x
  std::size_t y_first = 0;
  bool is_activated = false;
};

// Arguments of the scans of linear attention, and the numeric form of their results: the
// recurrences of RWKV-6, RWKV-7 and the gated delta rule, each for one head of one sequence, token
// by token.
//
// The state of a head is [head_size keys, head_size values]. Values j are computed in parallel;
// sums over keys i start at 0 and take i in ascending order. A token's result depends only on the
// token itself and the tokens before it, so scans in pieces of any length give the same bits.

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
