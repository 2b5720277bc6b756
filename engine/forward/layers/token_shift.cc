#include "engine/forward/layers/token_shift.h"

#include <algorithm>

namespace kvd {

void RunTokenShift(ForwardPass& pass, std::size_t layer, std::size_t state_offset,
                   const RowBuffer& x, const RowBuffer& difference) {
  const std::size_t width = pass.config().embedding_size;
  for (std::size_t s = 0; s < pass.sequences().size(); ++s) {
    const SequenceRows& rows = pass.sequences()[s];
    const LayerState state = pass.State(s, layer);
    const float* before = state.from == nullptr ? nullptr : state.from + state_offset;
    for (std::size_t i = 0; i < rows.row_count; ++i) {
      const float* row = x[rows.first_row + i];
      float* out = difference[rows.first_row + i];
      if (before == nullptr) {
        for (std::size_t c = 0; c < width; ++c) out[c] = 0.0f - row[c];
      } else {
        for (std::size_t c = 0; c < width; ++c) out[c] = before[c] - row[c];
      }
      before = row;
    }
    std::copy_n(before, width, state.to + state_offset);
    pass.CheckFinite(s, state.to + state_offset, width);
  }
}

void MixRows(ForwardPass& pass, const RowBuffer& x, const RowBuffer& difference, const float* mix,
             const RowBuffer& y) {
  const std::size_t width = pass.config().embedding_size;
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      const float* from = x[row];
      const float* shift = difference[row];
      float* to = y[row];
      for (std::size_t c = 0; c < width; ++c) to[c] = from[c] + shift[c] * mix[c];
    }
  });
}

}  // namespace kvd
