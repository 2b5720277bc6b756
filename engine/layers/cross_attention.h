// Attention of a decoder to the text that its encoder has read (Vaswani et al. 2017, section 3.2.3).
//
// Keys and values of the text depend on nothing that is decoded: they are computed once per text, as
// cells of the memory's cross group, which forks share.
#pragma once

#include <cstddef>

#include "engine/encoder_pass.h"
#include "engine/forward_pass.h"
#include "engine/layers/attention_weights.h"

namespace kvd {

// stream += residual_scale * Out(Attention(Q(x), K, V)), x = rms_norm(stream), over all cells of the
// sequence's text.
void RunCrossAttentionLayer(ForwardPass& pass, std::size_t layer, const AttentionWeights& weights);

// K and V of one layer of the decoder from the pass's rows at hand, of a text that is through the
// encoder, into the cells of the text from first_cell on. `part` is the cross group's. False: a number
// was not finite.
bool StoreCrossCells(EncoderPass& pass, const CellLayout& cells, const GroupPart& part,
                     std::size_t layer, std::size_t first_cell, std::size_t cell_count,
                     Memory& memory);

}  // namespace kvd
