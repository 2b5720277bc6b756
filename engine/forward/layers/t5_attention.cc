#include "engine/forward/layers/t5_attention.h"

#include <algorithm>
#include <vector>

#include "base/rounding.h"
#include "engine/forward/attention/attention.h"
#include "engine/forward/attention/text_attention.h"
#include "engine/forward/compute/linear.h"

namespace kvd {

// ---- plain attention
// A unit of work is one head of one sequence.

namespace {

float NoBias(std::size_t) { return 0.0f; }

// Reads the keys and values of one K/V head for the cells that a part of the step has in block
// group `group`. If `positions` is not null, the effective positions of the cells are appended to
// it.
void LoadCells(ForwardPass& pass, std::size_t layer, const GroupPart& part, std::uint32_t group,
               std::size_t head, HeadKeys& keys, std::vector<std::int64_t>* positions) {
  const CellLayout& cells = pass.cells();
  const kernels::KernelTable& kernels = *pass.compute().kernels;
  const std::size_t dim = pass.config().head_dim_k;
  std::vector<float> value(dim);
  for (std::size_t e = 0; e < part.extents.size(); ++e) {
    const layout::Extent& extent = part.extents[e];
    const std::size_t end = e + 1 < part.extents.size() ? part.extents[e + 1].start : keys.count();
    const std::byte* block = pass.memory().BlockBytes(group, BlockId{extent.block});
    const layout::CellRecord* records = pass.memory().BlockCells(group, BlockId{extent.block});
    for (std::size_t i = extent.start; i < end; ++i) {
      const std::size_t cell = extent.first + (i - extent.start);
      kernels.decode_row(cells.k_type, block + cells.KRow(layer, head, cell), keys.key(i), dim);
      kernels.decode_row(cells.v_type, block + cells.VRow(layer, head, cell), value.data(), dim);
      keys.SetValue(i, value.data());
      if (positions != nullptr)
        positions->push_back(std::int64_t{records[cell].stored_pos} + extent.delta);
    }
  }
}

}  // namespace

void RunPlainAttention(ForwardPass& pass, std::size_t layer, const PositionBias& bias,
                       const RowBuffer& q, const RowBuffer& out) {
  const std::size_t heads = pass.config().head_count[layer];
  const std::size_t dim = pass.config().head_dim_k;
  const std::uint32_t group = pass.cells().groups[layer];
  pass.compute().pool->Run(pass.plan().count * heads, [&](std::uint32_t, std::size_t unit) {
    const std::size_t s = unit / heads;
    const std::size_t head = unit % heads;
    const StepSequence& sequence = pass.plan().sequences[s];
    const std::size_t count = std::size_t{sequence.past_cells} + sequence.new_cells;
    HeadKeys keys(*pass.compute().kernels, count, RoundUp(count, HeadKeys::kLanes), dim);
    std::vector<std::int64_t> positions;
    positions.reserve(count);
    LoadCells(pass, layer, sequence.groups[group], group, head, keys, &positions);
    const float* const table = bias.table.data() + head * bias.distances;
    for (std::size_t i = 0; i < sequence.new_cells; ++i) {
      const std::size_t row = pass.sequences()[s].first_row + i;
      const std::size_t own = sequence.past_cells + i;
      const auto bias_of = [&](std::size_t cell) {
        const auto distance = static_cast<std::size_t>(positions[own] - positions[cell]);
        return table[std::min(distance, kBiasReach)];
      };
      keys.Attend(q[row] + head * dim, own + 1, bias_of, out[row] + head * dim);
    }
  });
}

void RunPlainCrossAttention(ForwardPass& pass, std::size_t layer, const RowBuffer& q,
                            const RowBuffer& out) {
  const std::size_t heads = pass.config().head_count[layer];
  const std::size_t dim = pass.config().head_dim_k;
  const std::uint32_t group = pass.cells().cross_group;
  const std::size_t cross_layer = CellLayout::CrossLayer(pass.config().layer_count, layer);
  pass.compute().pool->Run(pass.plan().count * heads, [&](std::uint32_t, std::size_t unit) {
    const std::size_t s = unit / heads;
    const std::size_t head = unit % heads;
    const StepSequence& sequence = pass.plan().sequences[s];
    const std::size_t count = sequence.groups[group].cell_count;
    HeadKeys keys(*pass.compute().kernels, count, count, dim);
    LoadCells(pass, cross_layer, sequence.groups[group], group, head, keys, nullptr);
    for (std::size_t i = 0; i < sequence.new_cells; ++i) {
      const std::size_t row = pass.sequences()[s].first_row + i;
      keys.Attend(q[row] + head * dim, count, NoBias, out[row] + head * dim);
    }
  });
}

// ---- cross attention
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
