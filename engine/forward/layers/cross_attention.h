// Attention of a decoder to the text that the encoder has read (Vaswani et al. 2017, section
// 3.2.3).
//
// Keys and values of the text do not depend on decoded tokens. The keys and values are computed
// once per text and stored as cells of the memory's cross-attention group, which forks share.
#pragma once

#include <cstddef>

#include "engine/forward/pass/encoder_pass.h"
#include "engine/forward/pass/forward_pass.h"
#include "engine/model/attention_weights.h"

namespace kvd {

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
