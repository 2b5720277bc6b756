// Attention of t5's decoder: to the tokens before, and to the text that the encoder has read.
#pragma once

#include <cstddef>

#include "engine/forward/pass/encoder_pass.h"
#include "engine/forward/pass/forward_pass.h"
#include "engine/model/layer_weights.h"
#include "engine/model/position_bias.h"

namespace kvd {

// Attention of t5's decoder. Scores are not scaled but get a bias by distance, and nothing is
// rotated. The order of sums is that of engine/forward/attention/text_attention.h.

// Attention of the ubatch's rows to the cells of their sequences; each row sees the cells up to its
// own. q and out: [rows, head_count * head_dim]. bias: from DecoderBias. REQUIRES: K and V of the
// new cells are in the pool, and the keys are not rotated.
void RunPlainAttention(ForwardPass& pass, std::size_t layer, const PositionBias& bias,
                       const RowBuffer& q, const RowBuffer& out);

// Attention to all cells of the sequences' encoded texts, without a bias.
void RunPlainCrossAttention(ForwardPass& pass, std::size_t layer, const RowBuffer& q,
                            const RowBuffer& out);

// Attention of a decoder to the text that the encoder has read (Vaswani et al. 2017, section
// 3.2.3).
//
// Keys and values of the text do not depend on decoded tokens. The keys and values are computed
// once per text and stored as cells of the memory's cross-attention group, which forks share.

// stream += residual_scale * Out(Attention(Q(x), K, V)), with x = rms_norm(stream), over all cells
// of the sequence's text.
void RunCrossAttentionLayer(ForwardPass& pass, std::size_t layer, const AttentionWeights& weights);

// Computes K and V of one decoder layer from the pass's current rows, which belong to a finished
// text, and writes them to the text's cells from first_cell on. `part` belongs to the
// cross-attention group. Returns false if a key or value was not finite.
bool StoreCrossCells(EncoderPass& pass, const CellLayout& cells, const GroupPart& part,
                     std::size_t layer, std::size_t first_cell, std::size_t cell_count,
                     Memory& memory);

}  // namespace kvd
