// The layers of RWKV-6 (Peng et al. 2024, "Eagle and Finch") and RWKV-7 (Peng et al. 2025, "RWKV-7
// Goose").
//
// The state of a layer consists of the last token's normed rows of time mix and channel mix [2, E],
// followed by the matrices of the heads: [heads, head_size keys, head_size values].
#pragma once

#include <cstddef>
#include <span>

#include "engine/forward/compute/row_functions.h"
#include "engine/forward/layers/linear_attention.h"
#include "engine/forward/pass/forward_pass.h"
#include "engine/model/recurrent_weights.h"

namespace kvd {

// The heads of an RWKV time mix: the norms of the heads, and the scans of the heads, which the
// threads divide among them.

// Scratch::kNormed = layer_norm(stream).
const RowBuffer& LayerNormedStream(ForwardPass& pass, const NormWeights& weights);
// y = layer norm of each head's elements, multiplied by the weights, plus the biases.
void NormHeads(ForwardPass& pass, const NormWeights& weights, const RowBuffer& y);

// Calls scan(head_rows, first_row, first) for each head of each sequence. The head's elements are
// [first, first + head_size) of each row of the sequence; the sequence's rows start at row
// first_row.
template <class Scan>
void ForHeads(ForwardPass& pass, std::size_t layer, const Scan& scan) {
  const std::size_t width = pass.config().embedding_size;
  const std::size_t size = pass.config().rwkv.head_size;
  const std::size_t head_count = width / size;
  const std::size_t operations = pass.row_count() * width * size;
  pass.ForUnits(pass.sequences().size() * head_count, operations, [&](std::size_t unit) {
    const std::size_t s = unit / head_count;
    const std::size_t head = unit % head_count;
    const kernels::HeadRows head_rows = RowsOfHead(
        pass.State(s, layer), 2 * width + head * size * size, size, pass.sequences()[s].row_count);
    scan(head_rows, pass.sequences()[s].first_row, head * size);
    pass.CheckFinite(s, head_rows.to, size * size);
  });
}

// RWKV's token shift: the difference between the previous token's row and a token's own row.
//
// The state of a token shift is the row of the last token: [embedding_size], zeros before the first
// token.

// difference[row] = x[previous row of the same sequence] - x[row]; rows of embedding_size. The row
// of the token before the ubatch is read from the token shift's state, which starts at
// `state_offset` floats of the layer's state. The last row of the ubatch is written to the state.
void RunTokenShift(ForwardPass& pass, std::size_t layer, std::size_t state_offset,
                   const RowBuffer& x, const RowBuffer& difference);

// y[row] = x[row] + difference[row] * mix, for every row.
void MixRows(ForwardPass& pass, const RowBuffer& x, const RowBuffer& difference, const float* mix,
             const RowBuffer& y);

std::size_t RwkvStateFloats(const ModelConfig& config);

// stream += TimeMix(layer_norm(stream)).
void RunRwkv6TimeMix(ForwardPass& pass, std::size_t layer, const Rwkv6TimeMix& weights);
// stream += TimeMix(layer_norm(stream)), with the time mix of RWKV-7. The values of the first layer
// stay in Scratch::kFirstValues for the following layers.
void RunRwkv7TimeMix(ForwardPass& pass, std::size_t layer, const Rwkv7TimeMix& weights);
// stream += ChannelMix(layer_norm(stream)), where ChannelMix = Value(max(0, Key)^2), multiplied by
// the logistic function of the receptance if the model has a receptance.
void RunRwkvChannelMix(ForwardPass& pass, std::size_t layer, const RwkvChannelMix& weights);

// NormStream applies a layer norm to the stream in place, and NormRows applies it to other rows and
// writes to `out`.
void NormStream(ForwardPass& pass, const NormWeights& weights);
void NormRows(ForwardPass& pass, std::span<const float* const> rows, const NormWeights& weights,
              float* const* out);

}  // namespace kvd
