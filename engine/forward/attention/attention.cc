#include "engine/forward/attention/attention.h"

#include <algorithm>
#include <limits>

#include "engine/forward/attention/attention_item.h"

namespace kvd {

// ---- attention
// A unit of work is one item of the plan for one kv head
// (engine/forward/attention/attention_item.h). The rows whose spans were computed separately are
// merged after all items.

namespace {

using kernels::kRunCells;
using kernels::SoftmaxState;

// If there are fewer than kInlineProducts multiply-adds, waking a second thread costs more than it
// gains.
constexpr std::size_t kInlineProducts = 128 * 1024;

// Merges the results of a row's spans, for the heads of one kv head.
void MergeRow(const Compute& compute, const AttentionPlan& plan, const AttentionShape& shape,
              const SplitRow& row, std::size_t kv_head, float* values, float* out) {
  const std::size_t group = shape.head_count / shape.kv_head_count;
  for (std::size_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    SoftmaxState merged = kNothingSeen;
    const float* part =
        plan.partials.data() + row.first_slot * plan.slot_floats + head * HeadSlotFloats(shape);
    for (std::uint32_t i = 0; i < row.slot_count; ++i, part += plan.slot_floats) {
      compute.kernels->merge_softmax({.max = part[0], .sum = part[1]}, part + 2, shape.head_dim_v,
                                     &merged, values);
    }
    compute.kernels->scale(values, FinalFactor(shape, head, merged), shape.head_dim_v,
                           out + (row.row * shape.head_count + head) * shape.head_dim_v);
  }
}

// Calls unit(worker, index) for each index, on the calling thread alone if there are few
// multiply-adds.
template <class Unit>
void RunUnits(const Compute& compute, std::size_t count, std::size_t products, const Unit& unit) {
  if (products >= kInlineProducts) return compute.pool->Run(count, unit);
  for (std::size_t i = 0; i < count; ++i) unit(0, i);
}

}  // namespace

AttentionTiling NoTiling(std::size_t thread_count) {
  return {.tile_rows = kItemQueries,
          .kv_head_count = std::numeric_limits<std::uint32_t>::max(),
          .slot_floats = 0,
          .thread_count = thread_count};
}

void IncludeLayer(const AttentionShape& shape, AttentionTiling* tiling) {
  const std::size_t group = shape.head_count / shape.kv_head_count;
  tiling->tile_rows = std::min(tiling->tile_rows, std::max<std::size_t>(1, kItemQueries / group));
  tiling->kv_head_count = std::min(tiling->kv_head_count, shape.kv_head_count);
  tiling->slot_floats = std::max(tiling->slot_floats, shape.head_count * HeadSlotFloats(shape));
}

void RunAttention(const Compute& compute, const AttentionPlan& plan, const CellLayout& cells,
                  const AttentionShape& shape, const float* q, float* out) {
  std::size_t seen = 0;
  for (const SequenceView& view : plan.sequences) {
    seen += view.row_count * view.run_count * kRunCells;
  }
  RunUnits(compute, plan.items.size() * shape.kv_head_count,
           seen * shape.head_count * (shape.head_dim_k + shape.head_dim_v),
           [&](std::uint32_t worker, std::size_t unit) {
             RunAttentionUnit(compute, plan, cells, shape, unit, compute.workspace(worker), q, out);
           });
  std::size_t slots = 0;
  for (const SplitRow& row : plan.split_rows) slots += row.slot_count;
  RunUnits(compute, plan.split_rows.size() * shape.kv_head_count,
           slots * shape.head_count * shape.head_dim_v,
           [&](std::uint32_t worker, std::size_t unit) {
             MergeRow(compute, plan, shape, plan.split_rows[unit / shape.kv_head_count],
                      unit % shape.kv_head_count, compute.workspace(worker), out);
           });
}

// ---- cell writer
bool WriteCells(const kernels::KernelTable& kernels, const CellLayout& cells, Memory& memory,
                const NewCells& target, std::size_t layer, std::size_t head_dim_k,
                std::size_t head_dim_v, const float* const* k, const float* const* v) {
  const std::vector<layout::Extent>& extents = target.part->extents;
  const std::size_t kv_heads = cells.layers[layer].kv_head_count;
  std::size_t extent = target.part->first_new_extent;
  bool finite = true;
  for (std::size_t i = 0; i < target.cell_count; ++i) {
    const std::size_t cell = target.first_cell + i;
    while (extent + 1 < extents.size() && extents[extent + 1].start <= cell) ++extent;
    const layout::Extent& home = extents[extent];
    std::byte* block = memory.BlockBytes(target.group, BlockId{home.block});
    const std::size_t block_cell = home.first + (cell - home.start);
    for (std::size_t head = 0; head < kv_heads; ++head) {
      finite &= kernels.encode_row(cells.k_type, k[i] + head * head_dim_k,
                                   block + cells.KRow(layer, head, block_cell), head_dim_k);
      if (cells.layers[layer].values_in_keys) continue;
      finite &= kernels.encode_row(cells.v_type, v[i] + head * head_dim_v,
                                   block + cells.VRow(layer, head, block_cell), head_dim_v);
    }
  }
  return finite;
}

}  // namespace kvd
