#include "engine/layers/attention_layer.h"

#include <algorithm>

#include "engine/layers/activations.h"
#include "engine/layers/attention.h"

namespace kvd {
namespace {

// RMS norm of each head's elements by itself (Dehghani et al. 2023).
void NormHeads(ForwardPass& pass, const AttentionShape& shape, const AttentionWeights& weights,
               const RowBuffer& q, const RowBuffer& k) {
  const kernels::KernelTable& kernels = *pass.compute().kernels;
  const float epsilon = pass.config().rms_epsilon;
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    const auto norm = [&](float* heads, std::size_t head_count, const float* weight) {
      if (weight == nullptr) return;
      for (std::size_t head = 0; head < head_count; ++head) {
        float* x = heads + head * shape.head_dim_k;
        kernels.rms_norm(x, weight, shape.head_dim_k, epsilon, x);
      }
    };
    for (std::size_t row = first; row < last; ++row) {
      norm(q[row], shape.head_count, weights.q_norm);
      norm(k[row], shape.kv_head_count, weights.k_norm);
    }
  });
}

// q = the first half of each head of rows that hold queries and gates.
void TakeQueries(ForwardPass& pass, const AttentionShape& shape, const RowBuffer& both,
                 const RowBuffer& q) {
  const std::size_t dim = shape.head_dim_k;
  for (std::size_t row = 0; row < pass.row_count(); ++row) {
    for (std::size_t head = 0; head < shape.head_count; ++head) {
      std::copy_n(both[row] + 2 * head * dim, dim, q[row] + head * dim);
    }
  }
}

// attended *= logistic(gate), the second half of each head.
void ApplyGates(ForwardPass& pass, const AttentionShape& shape, const RowBuffer& both,
                const RowBuffer& attended) {
  const std::size_t dim = shape.head_dim_v;
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      for (std::size_t head = 0; head < shape.head_count; ++head) {
        float* gate = both[row] + (2 * head + 1) * dim;
        float* x = attended[row] + head * dim;
        Logistics(gate, dim, gate);
        for (std::size_t i = 0; i < dim; ++i) x[i] *= gate[i];
      }
    }
  });
}

}  // namespace

void StoreKeysAndValues(ForwardPass& pass, std::size_t layer, const RowBuffer& k,
                        const RowBuffer& v) {
  const AttentionShape shape = pass.ShapeOf(layer);
  const kernels::KernelTable& kernels = *pass.compute().kernels;
  const CellLayout& cells = pass.cells();
  for (std::size_t s = 0; s < pass.plan().count; ++s) {
    const StepSequence& sequence = pass.plan().sequences[s];
    if (!pass.item(s).writes_cells) continue;
    bool finite = true;
    const std::uint32_t group = cells.groups[layer];
    const std::vector<layout::Extent>& extents = sequence.groups[group].extents;
    std::size_t extent = sequence.groups[group].first_new_extent;
    for (std::size_t i = 0; i < sequence.new_cells; ++i) {
      const std::size_t row = pass.sequences()[s].first_row + i;
      const std::size_t cell = sequence.past_cells + i;
      while (extent + 1 < extents.size() && extents[extent + 1].start <= cell) {
        ++extent;
      }
      const layout::Extent& home = extents[extent];
      std::byte* block = pass.memory().BlockBytes(group, BlockId{home.block});
      const std::size_t block_cell = home.first + (cell - home.start);
      if (shape.rotated_dim != 0) {
        kernels.rope(k[row], shape.kv_head_count, shape.head_dim_k, shape.rotated_dim,
                     shape.rope_interleaved, pass.KeyCosine(layer, row), pass.KeySine(layer, row));
      }
      for (std::size_t head = 0; head < shape.kv_head_count; ++head) {
        finite &= kernels.encode_row(cells.k_type, k[row] + head * shape.head_dim_k,
                                     block + cells.KRow(layer, head, block_cell), shape.head_dim_k);
        finite &= kernels.encode_row(cells.v_type, v[row] + head * shape.head_dim_v,
                                     block + cells.VRow(layer, head, block_cell), shape.head_dim_v);
      }
    }
    pass.item(s).finite = pass.item(s).finite && finite;
  }
}

const RowBuffer& Attend(ForwardPass& pass, std::size_t layer, const AttentionWeights& weights,
                        const RowBuffer& x) {
  const AttentionShape shape = pass.ShapeOf(layer);
  const RowBuffer& q = pass.Rows(Scratch::kQ, shape.head_count * shape.head_dim_k);
  const RowBuffer& k = pass.Rows(Scratch::kK, shape.kv_head_count * shape.head_dim_k);
  const RowBuffer& v = pass.Rows(Scratch::kV, shape.kv_head_count * shape.head_dim_v);
  const RowBuffer& attended = pass.Rows(Scratch::kAttended, shape.head_count * shape.head_dim_v);
  const auto job = [&](const LinearView& linear, const RowBuffer& y) {
    return LinearJob{.linear = &linear, .x = x[0], .x_stride = x.width(), .y = y.pointers()};
  };
  const std::size_t q_width = q.width() * (weights.has_output_gate ? 2 : 1);
  const RowBuffer& q_projected = weights.has_output_gate ? pass.Rows(Scratch::kA, q_width) : q;
  const LinearJob projections[] = {job(weights.q, q_projected), job(weights.k, k),
                                   job(weights.v, v)};
  RunLinear(pass.compute(), projections, pass.row_count());
  if (weights.has_output_gate) TakeQueries(pass, shape, q_projected, q);
  if (weights.q_norm != nullptr || weights.k_norm != nullptr) {
    NormHeads(pass, shape, weights, q, k);
  }
  StoreKeysAndValues(pass, layer, k, v);
  RunAttention(pass.compute(), pass.attention_plan(layer), pass.cells(), shape, q[0], attended[0]);
  if (weights.has_output_gate) ApplyGates(pass, shape, q_projected, attended);
  return attended;
}

void RunAttentionLayer(ForwardPass& pass, std::size_t layer, const AttentionWeights& weights) {
  const RowBuffer& x = pass.NormedStream(weights.norm);
  pass.AddToStream(weights.out, Attend(pass, layer, weights, x), weights.post_norm);
}

}  // namespace kvd
