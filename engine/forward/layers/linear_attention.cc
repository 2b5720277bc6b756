#include "engine/forward/layers/linear_attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "engine/forward/compute/row_functions.h"
#include "engine/forward/layers/convolutions.h"

namespace kvd {

// ---- gated delta net

namespace {

// Floats per token of the parts of a layer's input.
struct Sizes {
  explicit Sizes(const DeltaNetConfig& config)
      : head(config.head_size),
        keys(std::size_t{config.key_heads} * config.head_size),
        values(std::size_t{config.value_heads} * config.head_size),
        channels(2 * keys + values) {}
  std::size_t head;
  std::size_t keys;      // all keys; the same for all queries
  std::size_t values;    // all values
  std::size_t channels;  // queries, keys, values
};

CausalConvolution ConvolutionOf(const ModelConfig& config, const float* taps) {
  return {.taps = taps,
          .channels = Sizes(config.delta_net).channels,
          .width = config.delta_net.convolution_width,
          .is_activated = true};
}

// Copies `count` numbers and returns the address after them.
const float* Take(const float* from, std::size_t count, float* to) {
  std::copy_n(from, count, to);
  return from + count;
}

// Scales queries and keys to length 1, and queries also by 1/sqrt(head_size).
void ScaleQueriesAndKeys(const ModelConfig& config, float* x) {
  const Sizes sizes(config.delta_net);
  for (std::size_t at = 0; at < 2 * sizes.keys; at += sizes.head) {
    ScaleToUnitLength(x + at, sizes.head, config.rms_epsilon);
  }
  const float scale = 1.0f / std::sqrt(static_cast<float>(sizes.head));
  for (std::size_t c = 0; c < sizes.keys; ++c) x[c] *= scale;
}

// Copies [key heads][query, key, values, gates] to [queries, keys, values] and gates.
void Separate(ForwardPass& pass, const RowBuffer& joined, const RowBuffer& qkv,
              const RowBuffer& gate) {
  const DeltaNetConfig& config = pass.config().delta_net;
  const Sizes sizes(config);
  const std::size_t values = sizes.values / config.key_heads;
  for (std::size_t row = 0; row < pass.row_count(); ++row) {
    const float* from = joined[row];
    for (std::size_t head = 0; head < config.key_heads; ++head) {
      from = Take(from, sizes.head, qkv[row] + head * sizes.head);
      from = Take(from, sizes.head, qkv[row] + sizes.keys + head * sizes.head);
      from = Take(from, values, qkv[row] + 2 * sizes.keys + head * values);
      from = Take(from, values, gate[row] + head * values);
    }
  }
}

// Copies [key heads][betas, alphas] to betas and alphas.
void SeparatePairs(ForwardPass& pass, const RowBuffer& pairs, const RowBuffer& beta,
                   const RowBuffer& alpha) {
  const DeltaNetConfig& config = pass.config().delta_net;
  const std::size_t count = config.value_heads / config.key_heads;
  for (std::size_t row = 0; row < pass.row_count(); ++row) {
    const float* from = pairs[row];
    for (std::size_t head = 0; head < config.key_heads; ++head) {
      from = Take(from, count, beta[row] + head * count);
      from = Take(from, count, alpha[row] + head * count);
    }
  }
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
  const RowBuffer& qkv = pass.Rows(Scratch::kMixerInput, {sizes.channels});
  const RowBuffer& mixed = pass.Rows(Scratch::kConvolved, {sizes.channels});
  const RowBuffer& decay = pass.Rows(Scratch::kDecay, {head_count});
  const RowBuffer& beta = pass.Rows(Scratch::kRate, {head_count});
  const RowBuffer& gate = pass.Rows(Scratch::kGate, {head_count, sizes.head});
  const RowBuffer& y = pass.Rows(Scratch::kMixerOutput, {head_count, sizes.head});
  const auto job = [&](const LinearView& linear, const RowBuffer& to) {
    return LinearJob{.linear = &linear, .x = x[0], .x_stride = x.width(), .y = to.pointers()};
  };
  std::array<LinearJob, 4> projections;
  std::size_t count = 0;
  const bool is_joined = static_cast<bool>(weights.in.weight);
  const bool has_pairs = static_cast<bool>(weights.beta_alpha.weight);
  const RowBuffer& joined =
      is_joined ? pass.Rows(Scratch::kScanInput, {sizes.channels + sizes.values}) : qkv;
  const RowBuffer& pairs = has_pairs ? pass.Rows(Scratch::kUp, {2, head_count}) : beta;
  if (is_joined) {
    projections[count++] = job(weights.in, joined);
  } else {
    projections[count++] = job(weights.qkv, qkv);
    projections[count++] = job(weights.gate, gate);
  }
  if (has_pairs) {
    projections[count++] = job(weights.beta_alpha, pairs);
  } else {
    projections[count++] = job(weights.alpha, decay);
    projections[count++] = job(weights.beta, beta);
  }
  RunLinear(pass.compute(), std::span(projections).first(count), pass.row_count());
  if (is_joined) Separate(pass, joined, qkv, gate);
  if (has_pairs) SeparatePairs(pass, pairs, beta, decay);

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
    const DeltaNetConfig& net = config.delta_net;
    const std::size_t key_head =
        net.groups_value_heads ? head / (net.value_heads / net.key_heads) : head % net.key_heads;
    const std::size_t key = key_head * sizes.head;
    const SequenceRows& rows = pass.sequences()[s];
    const kernels::HeadRows head_rows =
        RowsOfHead(pass.State(s, layer), StateFloatsOf(convolution) + head * matrix, sizes.head,
                   rows.row_count);
    kernels.scan_delta_rule(head_rows, {.rows = mixed.pointers() + rows.first_row,
                                        .q_first = key,
                                        .k_first = sizes.keys + key,
                                        .v_first = 2 * sizes.keys + head * sizes.head,
                                        .decay = decay.pointers() + rows.first_row,
                                        .beta = beta.pointers() + rows.first_row,
                                        .head = head,
                                        .y = y.pointers() + rows.first_row,
                                        .y_first = head * sizes.head});
    pass.CheckFinite(s, head_rows.to, matrix);
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

// ---- kimi delta attention
// The recurrence is the one of RWKV-7 with other vectors (kernels/scan_args.h, Wkv7):
//   S = diag(w) S + b (S^T a)^T + k v^T
// with w = decay, a = -decay * k, and beta k for both b and k.

namespace {

// Floats per token.
struct KimiSizes {
  explicit KimiSizes(const DeltaNetConfig& config)
      : head(config.head_size), all(std::size_t{config.key_heads} * config.head_size) {}
  std::size_t head;
  std::size_t all;  // of the queries, keys or values of all heads
};

// The convolution of queries (part 0), keys (1) or values (2).
CausalConvolution ConvolutionOf(const ModelConfig& config, std::size_t part, const float* taps) {
  const std::size_t all = KimiSizes(config.delta_net).all;
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
  const KimiSizes sizes(config.delta_net);
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
  const KimiSizes sizes(config.delta_net);
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
  const KimiSizes sizes(config.delta_net);
  return ConvolutionStateFloats(config) + sizes.all * sizes.head;
}

void RunKimiDeltaAttention(ForwardPass& pass, std::size_t layer,
                           const KimiDeltaAttentionWeights& weights) {
  const ModelConfig& config = pass.config();
  const KimiSizes sizes(config.delta_net);
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
