// Linear attention with a matrix as its state (kernels/linear_attention_args.h): the part of a layer's
// state that one head of one sequence has.
#pragma once

#include <algorithm>
#include <cstddef>

#include "engine/forward_pass.h"

namespace kvd {

// The largest heads a model may have; their state is the square of it.
inline constexpr std::size_t kLinearHeadSizeMax = 256;

// The head whose matrix is at `offset` floats of the layer's state.
inline kernels::LinearAttentionPiece PieceOfHead(const LayerState& state, std::size_t offset,
                                                 std::size_t head_size, std::size_t row_count) {
  float* const to = state.to + offset;
  if (state.from == nullptr) std::fill_n(to, head_size * head_size, 0.0f);
  return {.row_count = row_count,
          .head_size = head_size,
          .from = state.from == nullptr ? to : state.from + offset,
          .to = to};
}

}  // namespace kvd
