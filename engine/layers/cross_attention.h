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

// K and V of every layer from the encoder's rows ([tokens, embedding_size]) into the cells that an
// encoding step has reserved. False: a number was not finite.
bool StoreCrossCells(EncoderPass& pass, const CellLayout& cells, const StepSequence& sequence,
                     Memory& memory);

}  // namespace kvd
