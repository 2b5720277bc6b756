// Linear attention whose state is a matrix: the gated delta net and Kimi Delta Attention.
#pragma once

#include <algorithm>
#include <cstddef>

#include "engine/forward/pass/forward_pass.h"
#include "engine/model/recurrent_weights.h"

namespace kvd {

// Linear attention whose state is a matrix (kernels/scan_args.h): the part of a layer's
// state that belongs to one head of one sequence.

// Largest head size of a model; the state of a head is a matrix of head size times head size.
inline constexpr std::size_t kLinearHeadSizeMax = 256;

// Returns the HeadRows of the head whose matrix starts at `offset` floats of the layer's state.
inline kernels::HeadRows RowsOfHead(const LayerState& state, std::size_t offset,
                                    std::size_t head_size, std::size_t row_count) {
  float* const to = state.to + offset;
  if (state.from == nullptr) std::fill_n(to, head_size * head_size, 0.0f);
  return {.row_count = row_count,
          .head_size = head_size,
          .from = state.from == nullptr ? to : state.from + offset,
          .to = to};
}

// The gated delta net (Yang et al. 2024, "Gated Delta Networks: Improving Mamba2 with Delta Rule")
// as in Qwen3-Next and Qwen3.5: a short convolution, the delta rule, and a gated norm.
//
// The state of a layer consists of the convolution's inputs of the last width - 1 tokens, followed
// by the matrices of the value heads: [value_heads, head_size keys, head_size values].
std::size_t GatedDeltaNetStateFloats(const ModelConfig& config);

// stream += Out(rms_norm(DeltaRule(silu(Convolution(Qkv(x))))) * silu(Gate(x))), with x =
// rms_norm(stream). Value head h uses the queries and keys of key head h % key_heads.
void RunGatedDeltaNet(ForwardPass& pass, std::size_t layer, const GatedDeltaNetWeights& weights);

// Kimi Delta Attention (Kimi Team 2025, "Kimi Linear: An Expressive, Efficient Attention
// Architecture"): the delta rule with a decay for each element of a key.
//
// The state of a layer consists of the inputs of the convolutions of queries, keys and values of
// the last width - 1 tokens, [width - 1, 3 * head_count * head_size], followed by the matrices of
// the heads: [head_count, head_size keys, head_size values].
std::size_t KimiDeltaAttentionStateFloats(const ModelConfig& config);

// With x = rms_norm(stream), and for each head
//   q = unit(silu(Convolution(Q x))) / sqrt(head_size), k = unit(silu(Convolution(K x))),
//   v = silu(Convolution(V x)), beta = logistic(Beta x),
//   decay = exp(decay_scale * softplus(DecayUp DecayDown x + decay_bias)),
//   S = (I - beta k k^T) diag(decay) S + beta k v^T, y = S^T q:
// stream += Out(rms_norm(y) * logistic(GateUp GateDown x)).
void RunKimiDeltaAttention(ForwardPass& pass, std::size_t layer,
                           const KimiDeltaAttentionWeights& weights);

}  // namespace kvd
