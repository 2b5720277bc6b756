// An attention layer: norm, projections, writing the new keys and values to the pool, attention,
// and adding the result to the residual stream.
#pragma once

#include <cstddef>

#include "engine/forward/pass/forward_pass.h"
#include "engine/model/attention_weights.h"

namespace kvd {

// stream += residual_scale * PostNorm(Out(Attention(Q(x), K(x), V(x)))), with x = norm(stream).
void RunAttentionLayer(ForwardPass& pass, std::size_t layer, const AttentionWeights& weights);

// RunAttentionLayer with the rows of x instead of norm(stream).
void RunAttentionLayerOn(ForwardPass& pass, std::size_t layer, const AttentionWeights& weights,
                         const RowBuffer& x);

// The attention of the layer without norm and output, for layers that combine attention with
// another mixer. Returns Attention(Q(x), K(x), V(x)) of the rows of x: [rows, head_count *
// head_dim_v], in Scratch::kMixerOutput.
const RowBuffer& Attend(ForwardPass& pass, std::size_t layer, const AttentionWeights& weights,
                        const RowBuffer& x);

// Multiplies queries at late positions by a factor above 1 (ModelConfig::query_scale; Mistral 2025,
// after Llama 4).
void ScaleQueries(ForwardPass& pass, const RowBuffer& q);

// Rotates the new keys (Scratch::kK) for their stored positions, and encodes the keys and the
// values (Scratch::kV) into the cells that are reserved for them.
void StoreKeysAndValues(ForwardPass& pass, std::size_t layer, const RowBuffer& k,
                        const RowBuffer& v);

}  // namespace kvd
