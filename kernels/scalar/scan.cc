// Scans of state-space layers, as kernels/scan_args.h defines them.
#include "kernels/scan_args.h"

#include "kernels/scalar/dot.h"
#include "kernels/scalar/functions.h"

namespace kvd::kernels::scalar {
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

}  // namespace kvd::kernels::scalar
