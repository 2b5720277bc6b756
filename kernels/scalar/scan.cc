// Scans of state-space layers and of linear attention, in plain code.
#include "kernels/scan_args.h"

#include <algorithm>
#include <cmath>

#include "kernels/scalar/dot.h"
#include "kernels/scalar/functions.h"

namespace kvd::kernels::scalar {

// ---- scan
// Scans of state-space layers, as kernels/scan_args.h defines them.

namespace {

float Softplus(float x) {
  const float e = Exp(x < -x ? x : -x);
  const float s = e / (2.0f + e);
  const float q = s * s;
  float p = kSoftplusC[0];
  for (std::size_t i = 1; i < std::size(kSoftplusC); ++i) p = std::fma(p, q, kSoftplusC[i]);
  const float t = s + s;
  return (x > 0.0f ? x : 0.0f) + std::fma(t * q, p, t);
}

float Silu(float x) { return x / (1.0f + Exp(-x)); }

const float* At(const ScanRows& rows, std::size_t row) { return rows.rows[row] + rows.first; }

// Advances the states of a channel by one row; decay(k) is the decay of state k. Returns Dot(state,
// c).
template <class Decay>
float NextStates(float* state, std::size_t n, const float* b, const float* c, float input,
                 const Decay& decay) {
  for (std::size_t k = 0; k < n; ++k) state[k] = std::fma(b[k], input, state[k] * decay(k));
  PartialSums sums;
  AddProducts(state, c, n, &sums);
  return sums.Total();
}

}  // namespace

void ScanChannels(const ChannelScan& scan) {
  const std::size_t n = scan.state_count;
  for (std::size_t row = 0; row < scan.row_count; ++row) {
    for (std::size_t i = 0; i < scan.channel_count; ++i) {
      const float step = Softplus(At(scan.dt, row)[i]);
      const float x = At(scan.x, row)[i];
      const float sum =
          NextStates(scan.state + i * n, n, At(scan.b, row), At(scan.c, row), x * step,
                     [&](std::size_t k) { return Exp(step * scan.a[i * n + k]); });
      scan.y[row][scan.y_first + i] = Silu(At(scan.gate, row)[i]) * std::fma(x, scan.d[i], sum);
    }
  }
}

void ScanHead(const HeadScan& scan) {
  const std::size_t n = scan.state_count;
  for (std::size_t row = 0; row < scan.row_count; ++row) {
    const float step = Softplus(At(scan.dt, row)[0] + scan.dt_bias);
    const float decay = Exp(step * scan.a);
    for (std::size_t i = 0; i < scan.channel_count; ++i) {
      const float x = At(scan.x, row)[i];
      const float sum = NextStates(scan.state + i * n, n, At(scan.b, row), At(scan.c, row),
                                   x * step, [&](std::size_t) { return decay; });
      scan.y[row][scan.y_first + i] = Silu(At(scan.gate, row)[i]) * std::fma(x, scan.d, sum);
    }
  }
}

void Convolve(const ChannelConvolution& work) {
  const std::size_t kept = work.width - 1;
  for (std::size_t row = 0; row < work.row_count; ++row) {
    for (std::size_t c = 0; c < work.channel_count; ++c) {
      float sum = work.bias == nullptr ? 0.0f : work.bias[c];
      for (std::size_t i = 0; i < work.width; ++i) {
        const float* x = row + i < kept ? work.before[row + i] : At(work.x, row + i - kept);
        sum = std::fma(work.taps[c * work.width + i], x[c], sum);
      }
      work.y[row][work.y_first + c] = work.is_activated ? Silu(sum) : sum;
    }
  }
}

// ---- linear attention
// Scans of linear attention, as kernels/scan_args.h defines them.

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
