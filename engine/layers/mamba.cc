// A unit of work is one sequence and a range of channels (heads): nothing crosses between channels
// in the scan.
#include "engine/layers/mamba.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/layers/causal_convolution.h"

namespace kvd {
namespace {

constexpr std::size_t kChannelsPerUnit = 32;

std::size_t RoundUp(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

float Softplus(float x) { return x > 20.0f ? x : std::log1p(std::exp(x)); }
float Silu(float x) { return x / (1.0f + std::exp(-x)); }

CausalConvolution ConvolutionOf(const SsmConfig& ssm, std::size_t channels,
                                const MambaWeights& weights) {
  return {.taps = weights.taps,
          .bias = weights.conv_bias,
          .channels = channels,
          .width = ssm.conv_width};
}

// rows = silu(Convolution(x)), and the convolution's part of the state.
void ConvolveAndActivate(ForwardPass& pass, std::size_t layer, const CausalConvolution& convolution,
                         const RowBuffer& x, const RowBuffer& rows) {
  RunCausalConvolution(pass, layer, 0, convolution, x, rows);
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      for (std::size_t i = 0; i < convolution.channels; ++i) rows[row][i] = Silu(rows[row][i]);
    }
  });
}

void NormRows(ForwardPass& pass, float* x, const float* weight, std::size_t count) {
  if (weight == nullptr) return;
  pass.compute().kernels->rms_norm(x, weight, count, pass.config().rms_epsilon, x);
}

// The scan's state before the ubatch, copied to where it is written.
float* BeginScan(const ForwardPass& pass, std::size_t sequence, std::size_t layer,
                 std::size_t offset, std::size_t first, std::size_t count) {
  const LayerState state = pass.State(sequence, layer);
  float* to = state.to + offset + first;
  if (state.from == nullptr) {
    std::fill_n(to, count, 0.0f);
  } else {
    std::copy_n(state.from + offset + first, count, to);
  }
  return to;
}

}  // namespace

std::size_t MambaStateFloats(const SsmConfig& ssm) {
  return RoundUp(std::size_t{ssm.inner_size} * (ssm.conv_width - 1) +
                     std::size_t{ssm.inner_size} * ssm.state_size,
                 16);
}

std::size_t Mamba2StateFloats(const SsmConfig& ssm) {
  return RoundUp(std::size_t{ssm.convolved_channels()} * (ssm.conv_width - 1) +
                     std::size_t{ssm.inner_size} * ssm.state_size,
                 16);
}

void RunMamba(ForwardPass& pass, std::size_t layer, const MambaWeights& weights,
              const RowBuffer& input) {
  const SsmConfig& ssm = pass.config().ssm;
  const std::size_t inner = ssm.inner_size, states = ssm.state_size, rank = ssm.time_step_rank;
  const RowBuffer& xz = pass.Rows(Scratch::kA, 2 * inner);
  const RowBuffer& u = pass.Rows(Scratch::kB, inner);
  const RowBuffer& dt_b_c = pass.Rows(Scratch::kC, rank + 2 * states);
  const RowBuffer& low = pass.Rows(Scratch::kD, rank);
  const RowBuffer& dt = pass.Rows(Scratch::kE, inner);
  const RowBuffer& y = pass.Rows(Scratch::kF, inner);
  pass.Project(weights.in, input, xz);
  const CausalConvolution convolution = ConvolutionOf(ssm, inner, weights);
  ConvolveAndActivate(pass, layer, convolution, xz, u);
  pass.Project(weights.x, u, dt_b_c);
  for (std::size_t row = 0; row < pass.row_count(); ++row) {
    NormRows(pass, dt_b_c[row], weights.dt_norm, rank);
    NormRows(pass, dt_b_c[row] + rank, weights.b_norm, states);
    NormRows(pass, dt_b_c[row] + rank + states, weights.c_norm, states);
    std::copy_n(dt_b_c[row], rank, low[row]);
  }
  pass.Project(weights.dt, low, dt);

  const std::size_t offset = StateFloatsOf(convolution);
  const std::size_t ranges = (inner + kChannelsPerUnit - 1) / kChannelsPerUnit;
  pass.ForUnits(
      pass.sequences().size() * ranges, pass.row_count() * inner * states * 8,
      [&](std::size_t unit) {
        const std::size_t s = unit / ranges;
        const std::size_t first = unit % ranges * kChannelsPerUnit;
        const std::size_t last = std::min(inner, first + kChannelsPerUnit);
        float* h = BeginScan(pass, s, layer, offset, first * states, (last - first) * states);
        const SequenceRows& rows = pass.sequences()[s];
        for (std::size_t row = rows.first_row; row < rows.first_row + rows.row_count; ++row) {
          const float* b = dt_b_c[row] + rank;
          const float* c = b + states;
          for (std::size_t i = first; i < last; ++i) {
            const float step = Softplus(dt[row][i]);
            const float x = u[row][i];
            float* state = h + (i - first) * states;
            const float* a = weights.a + i * states;
            float sum = 0.0f;
            for (std::size_t k = 0; k < states; ++k) {
              state[k] = state[k] * std::exp(step * a[k]) + b[k] * (x * step);
              sum += state[k] * c[k];
            }
            y[row][i] = (sum + x * weights.d[i]) * Silu(xz[row][inner + i]);
          }
        }
        pass.CheckFinite(s, h, (last - first) * states);
      });
  pass.AddToStream(weights.out, y);
}

void RunMamba2(ForwardPass& pass, std::size_t layer, const MambaWeights& weights,
               const RowBuffer& input) {
  const SsmConfig& ssm = pass.config().ssm;
  const std::size_t inner = ssm.inner_size, states = ssm.state_size, heads = ssm.time_step_rank;
  const std::size_t head_dim = inner / heads, channels = ssm.convolved_channels();
  const std::size_t heads_per_group = heads / ssm.group_count;
  const RowBuffer& all = pass.Rows(Scratch::kA, inner + channels + heads);  // z | x B C | dt
  const RowBuffer& x_b_c = pass.Rows(Scratch::kB, channels);
  const RowBuffer& u = pass.Rows(Scratch::kC, channels);
  const RowBuffer& y = pass.Rows(Scratch::kD, inner);
  pass.Project(weights.in, input, all);
  for (std::size_t row = 0; row < pass.row_count(); ++row) {
    std::copy_n(all[row] + inner, channels, x_b_c[row]);
  }
  const CausalConvolution convolution = ConvolutionOf(ssm, channels, weights);
  ConvolveAndActivate(pass, layer, convolution, x_b_c, u);

  const std::size_t offset = StateFloatsOf(convolution);
  const std::size_t head_floats = head_dim * states;
  pass.ForUnits(
      pass.sequences().size() * heads, pass.row_count() * inner * states * 4,
      [&](std::size_t unit) {
        const std::size_t s = unit / heads;
        const std::size_t head = unit % heads;
        float* h = BeginScan(pass, s, layer, offset, head * head_floats, head_floats);
        const SequenceRows& rows = pass.sequences()[s];
        for (std::size_t row = rows.first_row; row < rows.first_row + rows.row_count; ++row) {
          const float* b = u[row] + inner + head / heads_per_group * states;
          const float* c = b + ssm.group_count * states;
          const float step = Softplus(all[row][inner + channels + head] + weights.dt_bias[head]);
          const float decay = std::exp(step * weights.a[head]);
          for (std::size_t i = 0; i < head_dim; ++i) {
            const std::size_t channel = head * head_dim + i;
            const float x = u[row][channel];
            float* state = h + i * states;
            float sum = 0.0f;
            for (std::size_t k = 0; k < states; ++k) {
              state[k] = state[k] * decay + b[k] * (x * step);
              sum += state[k] * c[k];
            }
            y[row][channel] = (sum + x * weights.d[head]) * Silu(all[row][channel]);
          }
        }
        pass.CheckFinite(s, h, head_floats);
      });
  if (weights.out_norm != nullptr) {
    const std::size_t group = inner / ssm.group_count;
    for (std::size_t row = 0; row < pass.row_count(); ++row) {
      for (std::size_t g = 0; g < ssm.group_count; ++g) {
        NormRows(pass, y[row] + g * group, weights.out_norm + g * group, group);
      }
    }
  }
  pass.AddToStream(weights.out, y);
}

}  // namespace kvd
