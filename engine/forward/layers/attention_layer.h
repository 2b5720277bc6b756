// An attention layer: norm, projections, writing the new keys and values to the pool, attention,
// and adding the result to the residual stream.
#pragma once

#include <cstddef>

#include "engine/forward/pass/forward_pass.h"
#include "engine/model/layer_weights.h"

namespace kvd {

// Norms of queries and keys that differ from an RMS norm of each head before its rotation.
struct HeadShape {
  std::size_t heads;
  std::size_t dim;
};

// Norms each head of a row x [heads, dim] with weights of its own, [heads, dim].
void NormHeadsApart(const ForwardPass& pass, HeadShape shape, const float* weights, float* x);

enum class Turn : std::uint8_t { kToPositions, kBack };

// Rotates the queries and keys of all rows for the positions of their tokens, or back.
//
// A model that norms queries and keys after their rotation (Tencent 2025, Hunyuan) turns them to
// their positions, norms them, and turns them back. Then the usual rotation follows: keys rotate
// when they are stored, and attention rotates queries for each extent, because shifted keys are
// stored as rotated for another position. REQUIRES: the rotation's attention_factor is 1.
void TurnHeads(ForwardPass& pass, std::size_t layer, const RowBuffer& q, const RowBuffer& k,
               Turn turn);

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
