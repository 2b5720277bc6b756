#include "engine/forward/layers/latent_attention.h"

#include <algorithm>

#include "engine/forward/attention/attention.h"
#include "engine/forward/compute/step_profile.h"
#include "engine/forward/layers/attention_layer.h"

namespace kvd {
namespace {

void NormRows(ForwardPass& pass, const RowBuffer& rows, const float* weight, std::size_t count) {
  const float epsilon = pass.config().rms_epsilon;
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      pass.compute().kernels->rms_norm(rows[row], weight, count, epsilon, rows[row]);
    }
  });
}

// Computes the queries [head_count, plain_dim + shared_dim] and `latent`: [c, r], where c is
// normed.
const RowBuffer& ProjectInput(ForwardPass& pass, const LatentAttentionWeights& weights,
                              const RowBuffer& x, const RowBuffer& latent) {
  const LatentAttentionConfig& config = pass.config().latent;
  const RowBuffer& q = pass.Rows(Scratch::kQ, {weights.query.weight.out_features});
  const bool has_low_rank = config.query_rank != 0;
  const RowBuffer& first =
      has_low_rank ? pass.Rows(Scratch::kUp, {std::size_t{config.query_rank}}) : q;
  const auto job = [&](const LinearView& linear, const RowBuffer& y) {
    return LinearJob{.linear = &linear, .x = x[0], .x_stride = x.width(), .y = y.pointers()};
  };
  const LinearJob jobs[] = {job(has_low_rank ? weights.query_down : weights.query, first),
                            job(weights.latent, latent)};
  RunLinear(pass.compute(), jobs, pass.row_count());
  NormRows(pass, latent, weights.latent_norm, config.rank);
  if (has_low_rank) {
    NormRows(pass, first, weights.query_norm, config.query_rank);
    pass.Project(weights.query, first, q);
  }
  return q;
}

void RunAttentionOver(ForwardPass& pass, const AttentionShape& shape, const RowBuffer& q,
                      const RowBuffer& attended) {
  const StepProfile::Scope scope(pass.compute().profile, StepPhase::kAttention);
  RunAttention(pass.compute(), pass.attention_plan(shape.layer), pass.cells(), shape, q[0],
               attended[0]);
}

// Attention over cells of latent rows. Returns the heads' results: [head_count, value_dim].
const RowBuffer& AttendToLatentRows(ForwardPass& pass, const AttentionShape& shape,
                                    const LatentAttentionWeights& weights, const RowBuffer& x) {
  const LatentAttentionConfig& config = pass.config().latent;
  const RowBuffer& latent = pass.Rows(Scratch::kK, {shape.head_dim_k});
  const RowBuffer& q = ProjectInput(pass, weights, x, latent);
  const std::size_t head_dim = q.width() / shape.head_count;
  const RowBuffer& latent_q = pass.Rows(Scratch::kLatentQ, {shape.head_count, shape.head_dim_k});
  pass.head_products().Run(pass.compute(), weights.key_up, shape.head_count, pass.row_count(),
                           {&q, head_dim}, {&latent_q, shape.head_dim_k});
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      for (std::size_t head = 0; head < shape.head_count; ++head) {
        std::copy_n(q[row] + head * head_dim + config.plain_dim, config.shared_dim,
                    latent_q[row] + head * shape.head_dim_k + config.rank);
      }
    }
  });
  ScaleQueries(pass, latent_q);
  StoreKeysAndValues(pass, shape.layer, latent, latent);
  const RowBuffer& mixed = pass.Rows(Scratch::kMixerOutput, {shape.head_count, shape.head_dim_v});
  RunAttentionOver(pass, shape, latent_q, mixed);
  const RowBuffer& values = pass.Rows(Scratch::kV, {shape.head_count, config.value_dim});
  pass.head_products().Run(pass.compute(), weights.value_up, shape.head_count, pass.row_count(),
                           {&mixed, shape.head_dim_v}, {&values, config.value_dim});
  return values;
}

// Attention over cells of each head's own keys and values. Returns the heads' results: [head_count,
// value_dim].
const RowBuffer& AttendToHeads(ForwardPass& pass, const AttentionShape& shape,
                               const LatentAttentionWeights& weights, const RowBuffer& x) {
  const LatentAttentionConfig& config = pass.config().latent;
  const RowBuffer& latent =
      pass.Rows(Scratch::kLatent, {std::size_t{config.rank} + config.shared_dim});
  const RowBuffer& q = ProjectInput(pass, weights, x, latent);
  const std::size_t expanded_dim = config.plain_dim + config.value_dim;
  const RowBuffer& expanded = pass.Rows(Scratch::kUp, {shape.head_count, expanded_dim});
  const LinearJob job = {.linear = &weights.key_value_up,
                         .x = latent[0],
                         .x_stride = latent.width(),
                         .y = expanded.pointers()};
  RunLinear(pass.compute(), {&job, 1}, pass.row_count());
  const RowBuffer& k = pass.Rows(Scratch::kK, {shape.head_count, shape.head_dim_k});
  const RowBuffer& v = pass.Rows(Scratch::kV, {shape.head_count, shape.head_dim_v});
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      for (std::size_t head = 0; head < shape.head_count; ++head) {
        const float* const from = expanded[row] + head * expanded_dim;
        float* const key = k[row] + head * shape.head_dim_k;
        std::copy_n(from, config.plain_dim, key);
        std::copy_n(latent[row] + config.rank, config.shared_dim, key + config.plain_dim);
        std::copy_n(from + config.plain_dim, config.value_dim, v[row] + head * shape.head_dim_v);
      }
    }
  });
  ScaleQueries(pass, q);
  StoreKeysAndValues(pass, shape.layer, k, v);
  const RowBuffer& values = pass.Rows(Scratch::kMixerOutput, {shape.head_count, config.value_dim});
  RunAttentionOver(pass, shape, q, values);
  return values;
}

}  // namespace

void RunLatentAttentionLayer(ForwardPass& pass, std::size_t layer) {
  const LatentAttentionWeights& weights = pass.weights().layers[layer].latent_attention;
  const RowBuffer& x = pass.NormedStream(weights.norm);
  const StepProfile::Scope scope(pass.compute().profile, StepPhase::kProjections);
  AttentionShape shape = pass.ShapeOf(layer);
  shape.may_round = weights.query.weight.type != kernels::DataType::kF32;
  const RowBuffer& values = pass.config().latent.caches_latent
                                ? AttendToLatentRows(pass, shape, weights, x)
                                : AttendToHeads(pass, shape, weights, x);
  pass.AddToStream(weights.out, values);
}

}  // namespace kvd
