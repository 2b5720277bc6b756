#include "engine/layers/attention_layer.h"

#include <algorithm>

#include "engine/layers/activations.h"
#include "engine/layers/attention.h"
#include "engine/layers/cell_writer.h"
#include "engine/step_profile.h"

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
  const StepProfile::Scope scope(pass.compute().profile, StepPart::kCells);
  const AttentionShape shape = pass.ShapeOf(layer);
  const kernels::KernelTable& kernels = *pass.compute().kernels;
  const std::uint32_t group = pass.cells().groups[layer];
  for (std::size_t s = 0; s < pass.plan().count; ++s) {
    const StepSequence& sequence = pass.plan().sequences[s];
    if (!pass.item(s).writes_cells) continue;
    const std::size_t first_row = pass.sequences()[s].first_row;
    for (std::size_t row = first_row;
         shape.rotated_dim != 0 && row < first_row + sequence.new_cells; ++row) {
      kernels.rope(k[row], shape.kv_head_count, shape.head_dim_k, shape.rotated_dim,
                   shape.rope_interleaved, pass.KeyCosine(layer, row), pass.KeySine(layer, row));
    }
    const NewCells target{.part = &sequence.groups[group],
                          .group = group,
                          .first_cell = sequence.past_cells,
                          .cell_count = sequence.new_cells};
    const bool finite =
        WriteCells(kernels, pass.cells(), pass.memory(), target, layer, shape.head_dim_k,
                   shape.head_dim_v, k.pointers() + first_row, v.pointers() + first_row);
    pass.item(s).finite = pass.item(s).finite && finite;
  }
}

const RowBuffer& Attend(ForwardPass& pass, std::size_t layer, const AttentionWeights& weights,
                        const RowBuffer& x) {
  const StepProfile::Scope scope(pass.compute().profile, StepPart::kProjections);
  AttentionShape shape = pass.ShapeOf(layer);
  shape.may_round = weights.q.weight.type != kernels::DataType::kF32;
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
  {
    const StepProfile::Scope attention(pass.compute().profile, StepPart::kAttention);
    RunAttention(pass.compute(), pass.attention_plan(layer), pass.cells(), shape, q[0],
                 attended[0]);
  }
  if (weights.has_output_gate) ApplyGates(pass, shape, q_projected, attended);
  return attended;
}

void RunAttentionLayer(ForwardPass& pass, std::size_t layer, const AttentionWeights& weights) {
  const RowBuffer& x = pass.NormedStream(weights.norm);
  const StepProfile::Scope scope(pass.compute().profile, StepPart::kProjections);
  pass.AddToStream(weights.out, Attend(pass, layer, weights, x), weights.post_norm);
}

}  // namespace kvd
