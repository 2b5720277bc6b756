#include "engine/forward/layers/attention_layer.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "engine/forward/attention/attention.h"
#include "engine/forward/compute/row_functions.h"
#include "engine/forward/compute/step_profile.h"

namespace kvd {

// ---- head norms
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

// ---- attention layer

namespace {

// Norms the elements of each head of queries and keys (Dehghani et al. 2023). A layer without cells
// of its own has only queries.
void NormHeads(ForwardPass& pass, const AttentionShape& shape, const AttentionWeights& weights,
               const RowBuffer& q, const RowBuffer& k, const RowBuffer& v) {
  const kernels::KernelTable& kernels = *pass.compute().kernels;
  const float epsilon = pass.config().rms_epsilon;
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    const auto norm_each = [&](float* heads, std::size_t head_count, std::size_t dim,
                               const float* weight) {
      for (std::size_t head = 0; head < head_count; ++head) {
        float* x = heads + head * dim;
        kernels.rms_norm(x, weight, dim, epsilon, x);
      }
    };
    const auto norm = [&](float* heads, std::size_t head_count, const float* weight) {
      if (weight == nullptr) return;
      if (weights.norms_rows) {
        return kernels.rms_norm(heads, weight, head_count * shape.head_dim_k, epsilon, heads);
      }
      if (weights.has_norm_per_head) {
        return NormHeadsApart(pass, {.heads = head_count, .dim = shape.head_dim_k}, weight, heads);
      }
      norm_each(heads, head_count, shape.head_dim_k, weight);
    };
    for (std::size_t row = first; row < last; ++row) {
      norm(q[row], shape.head_count, weights.q_norm);
      norm(k[row], shape.kv_head_count, weights.k_norm);
      if (weights.norms_values && weights.k.weight) {
        norm_each(v[row], shape.kv_head_count, shape.head_dim_v, pass.ones());
      }
    }
  });
}

// q = the first half of each head in rows that hold queries and gates.
void TakeQueries(ForwardPass& pass, const AttentionShape& shape, const RowBuffer& both,
                 const RowBuffer& q) {
  const std::size_t dim = shape.head_dim_k;
  for (std::size_t row = 0; row < pass.row_count(); ++row) {
    for (std::size_t head = 0; head < shape.head_count; ++head) {
      std::copy_n(both[row] + 2 * head * dim, dim, q[row] + head * dim);
    }
  }
}

// attended *= logistic(gate); the gate is the second half of each head in `both`.
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

void ScaleQueries(ForwardPass& pass, const RowBuffer& q) {
  const ModelConfig& config = pass.config();
  if (config.query_scale == 0.0f) return;
  for (std::size_t s = 0; s < pass.plan().count; ++s) {
    const SequenceRows& rows = pass.sequences()[s];
    for (std::size_t i = 0; i < rows.row_count; ++i) {
      const std::int64_t position =
          std::int64_t{pass.plan().sequences[s].first_new_pos.value} + static_cast<std::int64_t>(i);
      const std::int64_t periods = position / config.query_scale_from;
      if (periods == 0) continue;
      const float factor = 1.0f + config.query_scale * std::log(1.0f + static_cast<float>(periods));
      float* row = q[rows.first_row + i];
      pass.compute().kernels->scale(row, factor, q.width(), row);
    }
  }
}

void StoreKeysAndValues(ForwardPass& pass, std::size_t layer, const RowBuffer& k,
                        const RowBuffer& v) {
  const StepProfile::Scope scope(pass.compute().profile, StepPhase::kCells);
  const AttentionShape shape = pass.ShapeOf(layer);
  const kernels::KernelTable& kernels = *pass.compute().kernels;
  const std::uint32_t group = pass.cells().groups[layer];
  for (std::size_t s = 0; s < pass.plan().count; ++s) {
    const StepSequence& sequence = pass.plan().sequences[s];
    if (!pass.item(s).writes_cells) continue;
    const std::size_t first_row = pass.sequences()[s].first_row;
    for (std::size_t row = first_row;
         shape.rotated_dim != 0 && row < first_row + sequence.new_cells; ++row) {
      kernels.rope(k[row] + shape.first_rotated, shape.kv_head_count, shape.head_dim_k,
                   shape.rotated_dim, shape.rope_interleaved, pass.KeyCosine(layer, row),
                   pass.KeySine(layer, row));
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
  const StepProfile::Scope scope(pass.compute().profile, StepPhase::kProjections);
  AttentionShape shape = pass.ShapeOf(layer);
  shape.sinks = weights.sinks;
  shape.may_round = weights.q.weight.type != kernels::DataType::kF32;
  const RowBuffer& q = pass.Rows(Scratch::kQ, {shape.head_count, shape.head_dim_k});
  const RowBuffer& k = pass.Rows(Scratch::kK, {shape.kv_head_count, shape.head_dim_k});
  const RowBuffer& v = pass.Rows(Scratch::kV, {shape.kv_head_count, shape.head_dim_v});
  const RowBuffer& attended =
      pass.Rows(Scratch::kMixerOutput, {shape.head_count, shape.head_dim_v});
  const auto job = [&](const LinearView& linear, const RowBuffer& y) {
    return LinearJob{.linear = &linear, .x = x[0], .x_stride = x.width(), .y = y.pointers()};
  };
  const RowBuffer& q_projected =
      weights.has_output_gate ? pass.Rows(Scratch::kMixerInput, {2, q.width()}) : q;
  const LinearJob projections[] = {job(weights.q, q_projected), job(weights.k, k),
                                   job(weights.v, v)};
  const bool has_cells = static_cast<bool>(weights.k.weight);
  const bool has_values = static_cast<bool>(weights.v.weight);
  RunLinear(pass.compute(),
            std::span(projections)
                .first(has_values  ? 3
                       : has_cells ? 2
                                   : 1),
            pass.row_count());
  if (has_cells && !has_values) {
    std::copy_n(k[0], pass.row_count() * k.width(), v[0]);
  }
  if (weights.has_output_gate) TakeQueries(pass, shape, q_projected, q);
  if (weights.q_norm != nullptr || weights.k_norm != nullptr) {
    if (weights.norms_rotated) TurnHeads(pass, layer, q, k, Turn::kToPositions);
    NormHeads(pass, shape, weights, q, k, v);
    if (weights.norms_rotated) TurnHeads(pass, layer, q, k, Turn::kBack);
  }
  ScaleQueries(pass, q);
  if (has_cells) StoreKeysAndValues(pass, layer, k, v);
  {
    const StepProfile::Scope attention(pass.compute().profile, StepPhase::kAttention);
    RunAttention(pass.compute(), pass.attention_plan(layer), pass.cells(), shape, q[0],
                 attended[0]);
  }
  if (weights.has_output_gate) ApplyGates(pass, shape, q_projected, attended);
  return attended;
}

void RunAttentionLayer(ForwardPass& pass, std::size_t layer, const AttentionWeights& weights) {
  RunAttentionLayerOn(pass, layer, weights, pass.NormedStream(weights.norm));
}

void RunAttentionLayerOn(ForwardPass& pass, std::size_t layer, const AttentionWeights& weights,
                         const RowBuffer& x) {
  const StepProfile::Scope scope(pass.compute().profile, StepPhase::kProjections);
  pass.AddToStream(weights.out, Attend(pass, layer, weights, x), weights.post_norm);
}

}  // namespace kvd
