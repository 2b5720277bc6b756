// Linear attention whose state is a matrix (kernels/linear_attention_args.h): the part of a layer's
// state that belongs to one head of one sequence.
#pragma once

#include <algorithm>
#include <cstddef>

#include "engine/forward/pass/forward_pass.h"

namespace kvd {

// Largest head size of a model; the state of a head is a matrix of head size times head size.
inline constexpr std::size_t kLinearHeadSizeMax = 256;

// Returns the HeadRows of the head whose matrix starts at `offset` floats of the layer's state.
inline kernels::HeadRows RowsOfHead(const LayerState& state, std::size_t offset,
                                    std::size_t head_size, std::size_t row_count) {
  float* const to = state.to + offset;
  if (state.from == nullptr) std::fill_n(to, head_size * head_size, 0.0f);
  return {.row_count = row_count,
          .head_size = head_size,
          .from = state.from == nullptr ? to : state.from + offset,
          .to = to};
}

}  // namespace kvd
