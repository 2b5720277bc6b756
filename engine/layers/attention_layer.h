// An attention layer: norm, projections, the new keys and values into the pool, attention, and the
// way back into the residual stream.
#pragma once

#include <cstddef>

#include "engine/forward_pass.h"
#include "engine/layers/attention_weights.h"

namespace kvd {

// stream += residual_scale * PostNorm(Out(Attention(Q(x), K(x), V(x)))), x = rms_norm(stream)
void RunAttentionLayer(ForwardPass& pass, std::size_t layer, const AttentionWeights& weights);

// The middle of it, for layers that mix attention with something else: out = Attention(Q(x), K(x),
// V(x)) of the rows of x, [rows, head_count * head_dim_v], in Scratch::kAttended.
const RowBuffer& Attend(ForwardPass& pass, std::size_t layer, const AttentionWeights& weights,
                        const RowBuffer& x);

// Rotates the new keys (Scratch::kK) for their stored positions and encodes them and the values
// (Scratch::kV) into the cells reserved for them.
void StoreKeysAndValues(ForwardPass& pass, std::size_t layer, const RowBuffer& k,
                        const RowBuffer& v);

}  // namespace kvd
