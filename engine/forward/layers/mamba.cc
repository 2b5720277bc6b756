// A unit of work is a range of channels (or one head) of one sequence; the scans of different
// channels are independent.
#include "engine/forward/layers/mamba.h"

#include <algorithm>

#include "base/rounding.h"
#include "engine/forward/layers/convolutions.h"

namespace kvd {
namespace {

constexpr std::size_t kChannelsPerUnit = 32;

CausalConvolution ConvolutionOf(const SsmConfig& ssm, std::size_t channels,
                                const MambaWeights& weights) {
  return {.taps = weights.taps,
          .bias = weights.conv_bias,
          .channels = channels,
          .width = ssm.conv_width,
          .is_activated = true};
}

void NormRow(ForwardPass& pass, float* x, const float* weight, std::size_t count) {
  if (weight == nullptr) return;
  pass.compute().kernels->rms_norm(x, weight, count, pass.config().rms_epsilon, x);
}

// Copies the scan's state before the ubatch to the place of the new state, and returns that place.
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
  const RowBuffer& xz = pass.Rows(Scratch::kMixerInput, {2, inner});
  const RowBuffer& u = pass.Rows(Scratch::kConvolved, {inner});
  const RowBuffer& dt_b_c = pass.Rows(Scratch::kScanInput, {rank + 2 * states});
  const RowBuffer& dt = pass.Rows(Scratch::kRate, {inner});
  const RowBuffer& y = pass.Rows(Scratch::kMixerOutput, {inner});
  pass.Project(weights.in, input, xz);
  const CausalConvolution convolution = ConvolutionOf(ssm, inner, weights);
  RunCausalConvolution(pass, layer, convolution, xz, 0, u);
  pass.Project(weights.x, u, dt_b_c);
  if (weights.dt_norm != nullptr || weights.b_norm != nullptr || weights.c_norm != nullptr) {
    pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
      for (std::size_t row = first; row < last; ++row) {
        NormRow(pass, dt_b_c[row], weights.dt_norm, rank);
        NormRow(pass, dt_b_c[row] + rank, weights.b_norm, states);
        NormRow(pass, dt_b_c[row] + rank + states, weights.c_norm, states);
      }
    });
  }
  pass.Project(weights.dt, dt_b_c, dt);

  const std::size_t offset = StateFloatsOf(convolution);
  const std::size_t ranges = (inner + kChannelsPerUnit - 1) / kChannelsPerUnit;
  pass.ForUnits(pass.sequences().size() * ranges, pass.row_count() * inner * states,
                [&](std::size_t unit) {
                  const std::size_t s = unit / ranges;
                  const std::size_t first = unit % ranges * kChannelsPerUnit;
                  const std::size_t count = std::min(inner - first, kChannelsPerUnit);
                  float* h = BeginScan(pass, s, layer, offset, first * states, count * states);
                  const SequenceRows& rows = pass.sequences()[s];
                  pass.compute().kernels->scan_channels(
                      {.row_count = rows.row_count,
                       .channel_count = count,
                       .state_count = states,
                       .dt = {dt.pointers() + rows.first_row, first},
                       .x = {u.pointers() + rows.first_row, first},
                       .gate = {xz.pointers() + rows.first_row, inner + first},
                       .b = {dt_b_c.pointers() + rows.first_row, rank},
                       .c = {dt_b_c.pointers() + rows.first_row, rank + states},
                       .a = weights.a + first * states,
                       .d = weights.d + first,
                       .state = h,
                       .y = y.pointers() + rows.first_row,
                       .y_first = first});
                  pass.CheckFinite(s, h, count * states);
                });
  pass.AddToStream(weights.out, y);
}

void RunMamba2(ForwardPass& pass, std::size_t layer, const MambaWeights& weights,
               const RowBuffer& input) {
  const SsmConfig& ssm = pass.config().ssm;
  const std::size_t inner = ssm.inner_size, states = ssm.state_size, heads = ssm.time_step_rank;
  const std::size_t head_dim = inner / heads, channels = ssm.convolved_channels();
  const std::size_t heads_per_group = heads / ssm.group_count;
  const RowBuffer& all =
      pass.Rows(Scratch::kMixerInput, {inner + channels + heads});  // z | x B C | dt
  const RowBuffer& u = pass.Rows(Scratch::kConvolved, {channels});
  const RowBuffer& y = pass.Rows(Scratch::kMixerOutput, {heads, head_dim});
  pass.Project(weights.in, input, all);
  const CausalConvolution convolution = ConvolutionOf(ssm, channels, weights);
  RunCausalConvolution(pass, layer, convolution, all, inner, u);

  const std::size_t offset = StateFloatsOf(convolution);
  const std::size_t head_floats = head_dim * states;
  pass.ForUnits(pass.sequences().size() * heads, pass.row_count() * inner * states,
                [&](std::size_t unit) {
                  const std::size_t s = unit / heads;
                  const std::size_t head = unit % heads;
                  const std::size_t first = head * head_dim;
                  const std::size_t group = inner + head / heads_per_group * states;
                  float* h = BeginScan(pass, s, layer, offset, head * head_floats, head_floats);
                  const SequenceRows& rows = pass.sequences()[s];
                  const float* const* const mixed = u.pointers() + rows.first_row;
                  const float* const* const projected = all.pointers() + rows.first_row;
                  pass.compute().kernels->scan_head({.row_count = rows.row_count,
                                                     .channel_count = head_dim,
                                                     .state_count = states,
                                                     .dt = {projected, inner + channels + head},
                                                     .x = {mixed, first},
                                                     .gate = {projected, first},
                                                     .b = {mixed, group},
                                                     .c = {mixed, group + ssm.group_count * states},
                                                     .dt_bias = weights.dt_bias[head],
                                                     .a = weights.a[head],
                                                     .d = weights.d[head],
                                                     .state = h,
                                                     .y = y.pointers() + rows.first_row,
                                                     .y_first = first});
                  pass.CheckFinite(s, h, head_floats);
                });
  if (weights.out_norm != nullptr) {
    const std::size_t group = inner / ssm.group_count;
    pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
      for (std::size_t row = first; row < last; ++row) {
        for (std::size_t at = 0; at < inner; at += group) {
          NormRow(pass, y[row] + at, weights.out_norm + at, group);
        }
      }
    });
  }
  pass.AddToStream(weights.out, y);
}

}  // namespace kvd
