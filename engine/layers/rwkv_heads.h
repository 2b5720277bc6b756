// The heads of a time mix: norms around them, and their scans shared out over the threads.
#pragma once

#include <cstddef>

#include "engine/forward_pass.h"
#include "engine/layers/layer_norm.h"
#include "engine/layers/linear_attention.h"

namespace kvd {

// kNormed = layer_norm(stream).
const RowBuffer& LayerNormedStream(ForwardPass& pass, const LayerNormWeights& weights);
// y = the layer norm of each head's elements by itself, times weights and biases of all.
void NormHeads(ForwardPass& pass, const LayerNormWeights& weights, const RowBuffer& y);

// scan(piece, first_row, first) for each head of each sequence: the head's elements are at [first,
// first + head_size) of rows from first_row on.
template <class Scan>
void ForHeads(ForwardPass& pass, std::size_t layer, const Scan& scan) {
  const std::size_t width = pass.config().embedding_size;
  const std::size_t size = pass.config().rwkv.head_size;
  const std::size_t head_count = width / size;
  const std::size_t operations = pass.row_count() * width * size;
  pass.ForUnits(pass.sequences().size() * head_count, operations, [&](std::size_t unit) {
    const std::size_t s = unit / head_count;
    const std::size_t head = unit % head_count;
    const kernels::LinearAttentionPiece piece = PieceOfHead(
        pass.State(s, layer), 2 * width + head * size * size, size, pass.sequences()[s].row_count);
    scan(piece, pass.sequences()[s].first_row, head * size);
    pass.CheckFinite(s, piece.to, size * size);
  });
}

}  // namespace kvd
