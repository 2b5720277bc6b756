// RWKV's token shift: the difference between the previous token's row and a token's own row.
//
// The state of a token shift is the row of the last token: [embedding_size], zeros before the first
// token.
#pragma once

#include <cstddef>

#include "engine/forward/pass/forward_pass.h"

namespace kvd {

// difference[row] = x[previous row of the same sequence] - x[row]; rows of embedding_size. The row
// of the token before the ubatch is read from the token shift's state, which starts at
// `state_offset` floats of the layer's state. The last row of the ubatch is written to the state.
void RunTokenShift(ForwardPass& pass, std::size_t layer, std::size_t state_offset,
                   const RowBuffer& x, const RowBuffer& difference);

// y[row] = x[row] + difference[row] * mix, for every row.
void MixRows(ForwardPass& pass, const RowBuffer& x, const RowBuffer& difference, const float* mix,
             const RowBuffer& y);

}  // namespace kvd
