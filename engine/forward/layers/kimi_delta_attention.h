// Kimi Delta Attention (Kimi Team 2025, "Kimi Linear: An Expressive, Efficient Attention
// Architecture"): the delta rule with a decay for each element of a key.
//
// The state of a layer consists of the inputs of the convolutions of queries, keys and values of
// the last width - 1 tokens, [width - 1, 3 * head_count * head_size], followed by the matrices of
// the heads: [head_count, head_size keys, head_size values].
#pragma once

#include <cstddef>

#include "engine/forward/pass/forward_pass.h"
#include "engine/model/kimi_delta_attention_weights.h"

namespace kvd {

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
