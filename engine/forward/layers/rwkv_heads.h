// The heads of an RWKV time mix: the norms of the heads, and the scans of the heads, which the
// threads divide among them.
#pragma once

#include <cstddef>

#include "engine/forward/compute/layer_norm.h"
#include "engine/forward/layers/linear_attention.h"
#include "engine/forward/pass/forward_pass.h"

namespace kvd {

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

}  // namespace kvd
