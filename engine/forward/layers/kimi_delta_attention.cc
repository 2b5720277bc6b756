// The recurrence is the one of RWKV-7 with other vectors (kernels/linear_attention_args.h, Wkv7):
//   S = diag(w) S + b (S^T a)^T + k v^T
// with w = decay, a = -decay * k, and beta k for both b and k.
#include "engine/forward/layers/kimi_delta_attention.h"

#include <cmath>

#include "engine/forward/compute/activations.h"
#include "engine/forward/compute/layer_norm.h"
#include "engine/forward/layers/causal_convolution.h"
#include "engine/forward/layers/linear_attention.h"

namespace kvd {
namespace {

// Floats per token.
struct Sizes {
  explicit Sizes(const DeltaNetConfig& config)
      : head(config.head_size), all(std::size_t{config.key_heads} * config.head_size) {}
  std::size_t head;
  std::size_t all;  // of the queries, keys or values of all heads
};

// The convolution of queries (part 0), keys (1) or values (2).
CausalConvolution ConvolutionOf(const ModelConfig& config, std::size_t part, const float* taps) {
  const std::size_t all = Sizes(config.delta_net).all;
  return {.taps = taps,
          .channels = all,
          .width = config.delta_net.convolution_width,
          .is_activated = true,
          .first_in_row = part * all,
          .row_channels = 3 * all};
}

std::size_t ConvolutionStateFloats(const ModelConfig& config) {
  return 3 * StateFloatsOf(ConvolutionOf(config, 0, nullptr));
}

// The rows of one token.
struct TokenRows {
  float* q;        // in: queries; out: scaled queries
  float* k;        // in: keys; out: beta * key of unit length
  float* decay;    // in: low-rank product; out: the decay
  float* beta;     // in: logits; out: the rates
  float* removed;  // out: -decay * key of unit length
};

void Prepare(const ModelConfig& config, const KimiDeltaAttentionWeights& weights,
             const TokenRows& rows) {
  const Sizes sizes(config.delta_net);
  const float query_scale = 1.0f / std::sqrt(static_cast<float>(sizes.head));
  Logistics(rows.beta, config.delta_net.key_heads, rows.beta);
  for (std::size_t head = 0; head < config.delta_net.key_heads; ++head) {
    const std::size_t first = head * sizes.head;
    ScaleToUnitLength(rows.q + first, sizes.head, config.rms_epsilon);
    ScaleToUnitLength(rows.k + first, sizes.head, config.rms_epsilon);
    for (std::size_t i = first; i < first + sizes.head; ++i) {
      const float step = Softplus(rows.decay[i] + weights.decay_bias[i]);
      rows.decay[i] = step * weights.decay_scale[head];
    }
    Exponentials(rows.decay + first, sizes.head, rows.decay + first);
    for (std::size_t i = first; i < first + sizes.head; ++i) {
      rows.q[i] *= query_scale;
      rows.removed[i] = -rows.decay[i] * rows.k[i];
      rows.k[i] *= rows.beta[head];
    }
  }
}

// y = rms_norm(y) * logistic(gate) for each head. The call changes `gate`.
void NormAndGate(ForwardPass& pass, const float* head_norm, const RowBuffer& gate,
                 const RowBuffer& y) {
  const ModelConfig& config = pass.config();
  const Sizes sizes(config.delta_net);
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      for (std::size_t at = 0; at < sizes.all; at += sizes.head) {
        float* head = y[row] + at;
        pass.compute().kernels->rms_norm(head, head_norm, sizes.head, config.rms_epsilon, head);
      }
      Logistics(gate[row], sizes.all, gate[row]);
      for (std::size_t i = 0; i < sizes.all; ++i) y[row][i] *= gate[row][i];
    }
  });
}

}  // namespace

std::size_t KimiDeltaAttentionStateFloats(const ModelConfig& config) {
  const Sizes sizes(config.delta_net);
  return ConvolutionStateFloats(config) + sizes.all * sizes.head;
}

void RunKimiDeltaAttention(ForwardPass& pass, std::size_t layer,
                           const KimiDeltaAttentionWeights& weights) {
  const ModelConfig& config = pass.config();
  const Sizes sizes(config.delta_net);
  const std::size_t head_count = config.delta_net.key_heads;
  const RowBuffer& x = pass.NormedStream(weights.norm);

  // Products.
  const RowBuffer& q_in = pass.Rows(Scratch::kForReceptance, {sizes.all});
  const RowBuffer& k_in = pass.Rows(Scratch::kForKey, {sizes.all});
  const RowBuffer& v_in = pass.Rows(Scratch::kForValue, {sizes.all});
  const RowBuffer& low_decay = pass.Rows(Scratch::kForDecay, {sizes.head});
  const RowBuffer& low_gate = pass.Rows(Scratch::kForGate, {sizes.head});
  const RowBuffer& beta = pass.Rows(Scratch::kRate, {head_count});
  const RowBuffer& decay = pass.Rows(Scratch::kDecay, {sizes.all});
  const RowBuffer& gate = pass.Rows(Scratch::kGate, {sizes.all});
  const auto job = [](const LinearView& linear, const RowBuffer& from, const RowBuffer& to) {
    return LinearJob{.linear = &linear, .x = from[0], .x_stride = from.width(), .y = to.pointers()};
  };
  const LinearJob from_x[] = {job(weights.q, x, q_in),
                              job(weights.k, x, k_in),
                              job(weights.v, x, v_in),
                              job(weights.beta, x, beta),
                              job(weights.decay_down, x, low_decay),
                              job(weights.gate_down, x, low_gate)};
  RunLinear(pass.compute(), from_x, pass.row_count());
  const LinearJob from_low[] = {job(weights.decay_up, low_decay, decay),
                                job(weights.gate_up, low_gate, gate)};
  RunLinear(pass.compute(), from_low, pass.row_count());

  // Short convolutions.
  const RowBuffer& q = pass.Rows(Scratch::kQ, {sizes.all});
  const RowBuffer& k = pass.Rows(Scratch::kK, {sizes.all});
  const RowBuffer& v = pass.Rows(Scratch::kV, {sizes.all});
  RunCausalConvolution(pass, layer, ConvolutionOf(config, 0, weights.q_taps), q_in, 0, q);
  RunCausalConvolution(pass, layer, ConvolutionOf(config, 1, weights.k_taps), k_in, 0, k);
  RunCausalConvolution(pass, layer, ConvolutionOf(config, 2, weights.v_taps), v_in, 0, v);

  // The delta rule. The queries' rows before their convolution are not used any more.
  const RowBuffer& removed = q_in;
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      Prepare(config, weights,
              {.q = q[row],
               .k = k[row],
               .decay = decay[row],
               .beta = beta[row],
               .removed = removed[row]});
    }
  });
  const RowBuffer& y = pass.Rows(Scratch::kMixerOutput, {sizes.all});
  const std::size_t matrix = sizes.head * sizes.head;
  const std::size_t operations = pass.row_count() * head_count * matrix;
  pass.ForUnits(pass.sequences().size() * head_count, operations, [&](std::size_t unit) {
    const std::size_t s = unit / head_count, head = unit % head_count;
    const SequenceRows& rows = pass.sequences()[s];
    const kernels::HeadRows head_rows =
        RowsOfHead(pass.State(s, layer), ConvolutionStateFloats(config) + head * matrix, sizes.head,
                   rows.row_count);
    pass.compute().kernels->scan_wkv7(head_rows, {.r = q.pointers() + rows.first_row,
                                                  .w = decay.pointers() + rows.first_row,
                                                  .k = k.pointers() + rows.first_row,
                                                  .v = v.pointers() + rows.first_row,
                                                  .a = removed.pointers() + rows.first_row,
                                                  .b = k.pointers() + rows.first_row,
                                                  .y = y.pointers() + rows.first_row,
                                                  .first = head * sizes.head});
    pass.CheckFinite(s, head_rows.to, matrix);
  });

  NormAndGate(pass, weights.head_norm, gate, y);
  pass.AddToStream(weights.out, y);
}

}  // namespace kvd
