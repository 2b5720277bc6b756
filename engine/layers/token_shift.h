// What RWKV mixes into a token: the difference of the token before it.
//
// Its state is the row of the last token: [embedding_size], zeros before the first.
#pragma once

#include <cstddef>

#include "engine/forward_pass.h"

namespace kvd {

// difference[row] = x[the row before it in its sequence] - x[row]; rows of embedding_size. The row
// before the ubatch comes from the state, which is at `state_offset` floats of that of the layer;
// the last one goes there.
void RunTokenShift(ForwardPass& pass, std::size_t layer, std::size_t state_offset,
                   const RowBuffer& x, const RowBuffer& difference);

// y[row] = x[row] + difference[row] * mix, for every row.
void MixRows(ForwardPass& pass, const RowBuffer& x, const RowBuffer& difference, const float* mix,
             const RowBuffer& y);

}  // namespace kvd
