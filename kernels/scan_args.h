// Arguments of the scans of state-space layers, and the numeric form of their results.
//
// Softplus(x) = max(x, 0) + l. l = log(1 + e) with e = Exp(-|x|) is computed as twice the inverse
// hyperbolic tangent of s = e / (2 + e), s <= 1/3:
//   q = s * s; p = kSoftplusC[0]; p = fma(p, q, kSoftplusC[i]), i ascending    1/13 ... 1/3
//   t = s + s; l = fma(t * q, p, t)
// The result is within 3 ulp of the true value; only a NaN gives a NaN.
#pragma once

#include <cstddef>

namespace kvd::kernels {

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

}  // namespace kvd::kernels
