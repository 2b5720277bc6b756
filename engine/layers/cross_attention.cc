#include "engine/layers/cross_attention.h"

#include "engine/layers/cell_writer.h"
#include "engine/layers/linear.h"
#include "engine/layers/plain_attention.h"

namespace kvd {

void RunCrossAttentionLayer(ForwardPass& pass, std::size_t layer, const AttentionWeights& weights) {
  const std::size_t width = std::size_t{pass.config().head_count[layer]} * pass.config().head_dim_k;
  const RowBuffer& q = pass.Rows(Scratch::kQ, width);
  const RowBuffer& attended = pass.Rows(Scratch::kAttended, width);
  pass.Project(weights.q, pass.NormedStream(weights.norm), q);
  RunPlainCrossAttention(pass, layer, q, attended);
  pass.AddToStream(weights.out, attended);
}

bool StoreCrossCells(EncoderPass& pass, const CellLayout& cells, const StepSequence& sequence,
                     Memory& memory) {
  const ModelConfig& config = pass.config();
  const EncoderRows& text = pass.stream();
  const NewCells target{.part = &sequence.groups[cells.cross_group],
                        .group = cells.cross_group,
                        .first_cell = 0,
                        .cell_count = sequence.new_cells};
  bool finite = true;
  EncoderRows k, v;
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    const AttentionWeights& weights = pass.weights().layers[layer].cross_attention;
    k.Shape(sequence.new_cells, weights.k.weight.out_features);
    v.Shape(sequence.new_cells, weights.v.weight.out_features);
    const auto job = [&](const LinearView& linear, const EncoderRows& y) {
      return LinearJob{
          .linear = &linear, .x = text[0], .x_stride = text.width(), .y = y.pointers()};
    };
    const LinearJob jobs[] = {job(weights.k, k), job(weights.v, v)};
    RunLinear(pass.compute(), jobs, sequence.new_cells);
    finite &= WriteCells(*pass.compute().kernels, cells, memory, target,
                         CellLayout::CrossLayer(config.layer_count, layer), config.head_dim_k,
                         config.head_dim_v, k.pointers(), v.pointers());
  }
  return finite;
}

}  // namespace kvd
