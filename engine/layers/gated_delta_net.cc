#include "engine/layers/gated_delta_net.h"

#include <cmath>

#include "engine/layers/activations.h"
#include "engine/layers/causal_convolution.h"
#include "engine/layers/layer_norm.h"
#include "engine/layers/linear_attention.h"

namespace kvd {
namespace {

// Numbers per token.
struct Sizes {
  explicit Sizes(const DeltaNetConfig& config)
      : head(config.head_size),
        keys(std::size_t{config.key_heads} * config.head_size),
        values(std::size_t{config.value_heads} * config.head_size),
        channels(2 * keys + values) {}
  std::size_t head;
  std::size_t keys;      // all keys, all queries
  std::size_t values;    // all values
  std::size_t channels;  // queries, keys, values
};

CausalConvolution ConvolutionOf(const ModelConfig& config, const float* taps) {
  return {.taps = taps,
          .channels = Sizes(config.delta_net).channels,
          .width = config.delta_net.convolution_width,
          .is_activated = true};
}

// Queries and keys to length 1, queries by 1/sqrt(head_size) too.
void ScaleQueriesAndKeys(const ModelConfig& config, float* x) {
  const Sizes sizes(config.delta_net);
  for (std::size_t at = 0; at < 2 * sizes.keys; at += sizes.head) {
    ScaleToUnitLength(x + at, sizes.head, config.rms_epsilon);
  }
  const float scale = 1.0f / std::sqrt(static_cast<float>(sizes.head));
  for (std::size_t c = 0; c < sizes.keys; ++c) x[c] *= scale;
}

}  // namespace

std::size_t GatedDeltaNetStateFloats(const ModelConfig& config) {
  const Sizes sizes(config.delta_net);
  return StateFloatsOf(ConvolutionOf(config, nullptr)) + sizes.values * sizes.head;
}

void RunGatedDeltaNet(ForwardPass& pass, std::size_t layer, const GatedDeltaNetWeights& weights) {
  const ModelConfig& config = pass.config();
  const kernels::KernelTable& kernels = *pass.compute().kernels;
  const Sizes sizes(config.delta_net);
  const std::size_t head_count = config.delta_net.value_heads;
  const RowBuffer& x = pass.NormedStream(weights.norm);
  const RowBuffer& qkv = pass.Rows(Scratch::kA, sizes.channels);
  const RowBuffer& mixed = pass.Rows(Scratch::kB, sizes.channels);
  const RowBuffer& decay = pass.Rows(Scratch::kC, head_count);
  const RowBuffer& beta = pass.Rows(Scratch::kD, head_count);
  const RowBuffer& gate = pass.Rows(Scratch::kGate, sizes.values);
  const RowBuffer& y = pass.Rows(Scratch::kAttended, sizes.values);
  const auto job = [&](const LinearView& linear, const RowBuffer& to) {
    return LinearJob{.linear = &linear, .x = x[0], .x_stride = x.width(), .y = to.pointers()};
  };
  const LinearJob projections[] = {job(weights.qkv, qkv), job(weights.gate, gate),
                                   job(weights.alpha, decay), job(weights.beta, beta)};
  RunLinear(pass.compute(), projections, pass.row_count());

  const CausalConvolution convolution = ConvolutionOf(config, weights.taps);
  RunCausalConvolution(pass, layer, convolution, qkv, 0, mixed);
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      ScaleQueriesAndKeys(config, mixed[row]);
      Logistics(beta[row], head_count, beta[row]);
      for (std::size_t head = 0; head < head_count; ++head) {
        const float step = Softplus(decay[row][head] + weights.alpha_bias[head]);
        decay[row][head] = Exponential(step * weights.decay_scale[head]);
      }
    }
  });

  const std::size_t matrix = sizes.head * sizes.head;
  const std::size_t operations = pass.row_count() * head_count * matrix;
  pass.ForUnits(pass.sequences().size() * head_count, operations, [&](std::size_t unit) {
    const std::size_t s = unit / head_count;
    const std::size_t head = unit % head_count;
    const std::size_t key = head % config.delta_net.key_heads * sizes.head;
    const SequenceRows& rows = pass.sequences()[s];
    const kernels::LinearAttentionPiece piece =
        PieceOfHead(pass.State(s, layer), StateFloatsOf(convolution) + head * matrix, sizes.head,
                    rows.row_count);
    kernels.scan_delta_rule(piece, {.rows = mixed.pointers() + rows.first_row,
                                    .q_first = key,
                                    .k_first = sizes.keys + key,
                                    .v_first = 2 * sizes.keys + head * sizes.head,
                                    .decay = decay.pointers() + rows.first_row,
                                    .beta = beta.pointers() + rows.first_row,
                                    .head = head,
                                    .y = y.pointers() + rows.first_row,
                                    .y_first = head * sizes.head});
    pass.CheckFinite(s, piece.to, matrix);
  });

  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      for (std::size_t at = 0; at < sizes.values; at += sizes.head) {
        float* head = y[row] + at;
        kernels.rms_norm(head, weights.head_norm, sizes.head, config.rms_epsilon, head);
      }
      kernels.silu_multiply(gate[row], y[row], sizes.values, y[row]);
    }
  });
  pass.AddToStream(weights.out, y);
}

}  // namespace kvd
