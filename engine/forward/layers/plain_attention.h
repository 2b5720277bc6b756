// Attention of t5's decoder. Scores are not scaled but get a bias by distance, and nothing is
// rotated. The order of sums is that of engine/forward/attention/plain_text_attention.h.
#pragma once

#include <cstddef>

#include "engine/forward/pass/forward_pass.h"
#include "engine/model/position_bias.h"

namespace kvd {

// Attention of the ubatch's rows to the cells of their sequences; each row sees the cells up to its
// own. q and out: [rows, head_count * head_dim]. bias: from DecoderBias. REQUIRES: K and V of the
// new cells are in the pool, and the keys are not rotated.
void RunPlainAttention(ForwardPass& pass, std::size_t layer, const PositionBias& bias,
                       const RowBuffer& q, const RowBuffer& out);

// Attention to all cells of the sequences' encoded texts, without a bias.
void RunPlainCrossAttention(ForwardPass& pass, std::size_t layer, const RowBuffer& q,
                            const RowBuffer& out);

}  // namespace kvd
