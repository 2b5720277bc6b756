#include "engine/forward/layers/cross_attention.h"

#include "engine/forward/attention/cell_writer.h"
#include "engine/forward/compute/linear.h"
#include "engine/forward/layers/plain_attention.h"

namespace kvd {

void RunCrossAttentionLayer(ForwardPass& pass, std::size_t layer, const AttentionWeights& weights) {
  const RowShape shape = {pass.config().head_count[layer], pass.config().head_dim_k};
  const RowBuffer& q = pass.Rows(Scratch::kQ, shape);
  const RowBuffer& attended = pass.Rows(Scratch::kMixerOutput, shape);
  pass.Project(weights.q, pass.NormedStream(weights.norm), q);
  RunPlainCrossAttention(pass, layer, q, attended);
  pass.AddToStream(weights.out, attended);
}

bool StoreCrossCells(EncoderPass& pass, const CellLayout& cells, const GroupPart& part,
                     std::size_t layer, std::size_t first_cell, std::size_t cell_count,
                     Memory& memory) {
  const ModelConfig& config = pass.config();
  const AttentionWeights& weights = pass.weights().layers[layer].cross_attention;
  const RowSpan text = pass.stream();
  EncoderRows k, v;
  k.Shape(cell_count, weights.k.weight.out_features);
  v.Shape(cell_count, weights.v.weight.out_features);
  const auto job = [&](const LinearView& linear, const EncoderRows& y) {
    return LinearJob{.linear = &linear, .x = text[0], .x_stride = text.width, .y = y.From(0).rows};
  };
  const LinearJob jobs[] = {job(weights.k, k), job(weights.v, v)};
  RunLinear(pass.compute(), jobs, cell_count);
  const NewCells target{.part = &part,
                        .group = cells.cross_group,
                        .first_cell = first_cell,
                        .cell_count = cell_count};
  return WriteCells(*pass.compute().kernels, cells, memory, target,
                    CellLayout::CrossLayer(config.layer_count, layer), config.head_dim_k,
                    config.head_dim_v, k.From(0).rows, v.From(0).rows);
}

}  // namespace kvd
