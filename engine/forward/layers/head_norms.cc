#include "engine/forward/layers/head_norms.h"

#include <algorithm>

namespace kvd {

void NormHeadsApart(const ForwardPass& pass, HeadShape shape, const float* weights, float* x) {
  for (std::size_t head = 0; head < shape.heads; ++head) {
    const std::size_t at = head * shape.dim;
    pass.NormRow(x + at, {.weight = weights + at}, shape.dim, x + at);
  }
}

void TurnHeads(ForwardPass& pass, std::size_t layer, const RowBuffer& q, const RowBuffer& k,
               Turn turn) {
  const AttentionShape shape = pass.ShapeOf(layer);
  const std::size_t kind = ModelRopes::KindOf(pass.config(), layer);
  const std::size_t pairs = pass.ropes().pair_count(kind);
  const RowBuffer& angles = pass.Rows(Scratch::kAngles, {2, pairs});
  for (std::size_t s = 0; s < pass.plan().count; ++s) {
    const StepSequence& sequence = pass.plan().sequences[s];
    const RopeTable& rope = pass.ropes().table(kind, sequence.key_form);
    const std::size_t first_row = pass.sequences()[s].first_row;
    const bool is_shifted = sequence.groups[0].extents.back().delta != 0;
    pass.ForRows(sequence.new_cells, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        const std::size_t row = first_row + i;
        float* const cosine = angles[row];
        float* const sine = cosine + pairs;
        if (is_shifted) {
          rope.Fill(std::int64_t{sequence.first_new_pos.value} + static_cast<std::int64_t>(i),
                    cosine, sine);
        } else {
          std::copy_n(pass.KeyCosine(layer, row), pairs, cosine);
          std::copy_n(pass.KeySine(layer, row), pairs, sine);
        }
        for (std::size_t p = 0; turn == Turn::kBack && p < pairs; ++p) sine[p] = -sine[p];
        const auto rotate = [&](float* heads, std::size_t head_count) {
          pass.compute().kernels->rope(heads + shape.first_rotated, head_count, shape.head_dim_k,
                                       shape.rotated_dim, shape.rope_interleaved, cosine, sine);
        };
        rotate(q[row], shape.head_count);
        rotate(k[row], shape.kv_head_count);
      }
    });
  }
}

}  // namespace kvd
