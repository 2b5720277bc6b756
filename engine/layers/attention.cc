// A unit of work is a tile of query rows times one kv head; the query rows of all heads of the
// group go through a run of cells together. Pieces of a run hold scores side by side, so softmax
// sees the whole run whatever blocks it lies in.
#include "engine/layers/attention.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "shm/check.h"

namespace kvd {
namespace {

constexpr std::size_t kRunCells = layout::kBlockCells;
constexpr std::size_t kTileQueries = 32;
// Below this many multiply-adds waking a second thread costs more than it gains.
constexpr std::size_t kInlineProducts = 128 * 1024;

// Cuts a sequence's extents into runs of kRunCells cells.
void AppendRuns(const StepSequence& source, Memory& memory, AttentionPlan* plan,
                SequenceView* view) {
  const std::size_t cell_count = std::size_t{source.past_cells} + source.new_cells;
  view->first_piece = plan->pieces.size();
  view->first_run = plan->run_starts.size();
  view->first_delta = plan->deltas.size();
  std::size_t in_run = kRunCells;
  for (std::size_t e = 0; e < source.extents.size(); ++e) {
    const layout::Extent& extent = source.extents[e];
    const std::size_t end =
        e + 1 < source.extents.size() ? source.extents[e + 1].start : cell_count;
    const auto known = plan->deltas.begin() + static_cast<std::ptrdiff_t>(view->first_delta);
    const auto found = std::find(known, plan->deltas.end(), extent.delta);
    const auto delta_index = static_cast<std::uint32_t>(found - known);
    if (found == plan->deltas.end()) plan->deltas.push_back(extent.delta);
    const std::byte* block = memory.BlockBytes(BlockId{extent.block});
    std::size_t first = extent.first;
    for (std::size_t left = end - extent.start; left > 0;) {
      if (in_run == kRunCells) {
        plan->run_starts.push_back(
            static_cast<std::uint32_t>(plan->pieces.size() - view->first_piece));
        in_run = 0;
      }
      const std::size_t take = std::min(left, kRunCells - in_run);
      plan->pieces.push_back({.block = block,
                              .first = static_cast<std::uint16_t>(first),
                              .cell_count = static_cast<std::uint16_t>(take),
                              .delta_index = delta_index});
      first += take;
      in_run += take;
      left -= take;
    }
  }
  view->run_count = plan->run_starts.size() - view->first_run;
  plan->run_starts.push_back(static_cast<std::uint32_t>(plan->pieces.size() - view->first_piece));
  view->delta_count = plan->deltas.size() - view->first_delta;
  KVD_ASSERT(view->run_count == (cell_count + kRunCells - 1) / kRunCells);
}

// One tile of one kv head; everything it needs lies in its worker's workspace:
//   rotated  [tile queries, head_dim_k]            queries for the delta at hand
//   scores   [tile queries, kRunCells]
//   values   [tile queries, head_dim_v]
//   state    [tile queries]                        running maximum and sum
class Tile {
 public:
  Tile(const Compute& compute, const AttentionPlan& plan, const CellLayout& cells,
       const AttentionShape& shape, const AttentionPlan::Unit& unit, std::size_t kv_head,
       float* workspace)
      : kernels_(*compute.kernels),
        plan_(plan),
        cells_(cells),
        shape_(shape),
        unit_(unit),
        view_(plan.sequences[unit.sequence]),
        kv_head_(kv_head),
        group_(shape.head_count / shape.kv_head_count),
        rotated_(workspace),
        scores_(rotated_ + kTileQueriesMax(group_) * shape.head_dim_k),
        values_(scores_ + kTileQueriesMax(group_) * kRunCells),
        states_(reinterpret_cast<kernels::SoftmaxState*>(values_ + kTileQueriesMax(group_) *
                                                                       shape.head_dim_v)) {}

  static std::size_t kTileQueriesMax(std::size_t group) { return std::max(kTileQueries, group); }

  void Run(const float* q, float* out) {
    q_ = q;
    const std::size_t query_count = unit_.row_count * group_;
    for (std::size_t i = 0; i < query_count; ++i) {
      states_[i] = {.max = -std::numeric_limits<float>::infinity(), .sum = 0.0f};
    }
    rotated_delta_ = std::numeric_limits<std::uint32_t>::max();
    // The last row sees the most.
    const std::size_t seen = SeenCells(unit_.row_count - 1);
    for (std::size_t run = 0; run * kRunCells < seen; ++run) RunCells(run);
    Finish(out);
  }

 private:
  // Cells that the tile's row sees.
  std::size_t SeenCells(std::size_t row) const {
    return view_.past_cells + (unit_.first_row - view_.first_row) + row + 1;
  }

  void Rotate(std::uint32_t delta_index) {
    if (rotated_delta_ == delta_index) return;
    rotated_delta_ = delta_index;
    const std::size_t pairs = shape_.rotated_dim / 2;
    const std::size_t row_floats = shape_.head_count * shape_.head_dim_k;
    for (std::size_t row = 0; row < unit_.row_count; ++row) {
      float* rotated = rotated_ + row * group_ * shape_.head_dim_k;
      std::memcpy(rotated,
                  q_ + (unit_.first_row + row) * row_floats + kv_head_ * group_ * shape_.head_dim_k,
                  group_ * shape_.head_dim_k * sizeof(float));
      const std::size_t angle =
          view_.first_angle +
          (delta_index * view_.row_count + (unit_.first_row - view_.first_row) + row) * pairs;
      kernels_.rope(rotated, group_, shape_.head_dim_k, shape_.rotated_dim, shape_.rope_interleaved,
                    plan_.cosine.data() + angle, plan_.sine.data() + angle);
    }
  }

  void RunCells(std::size_t run) {
    const std::uint32_t* starts = plan_.run_starts.data() + view_.first_run + run;
    const std::size_t first_cell = run * kRunCells;
    // Rows before this one see nothing of the run.
    std::size_t first_row = 0;
    while (SeenCells(first_row) <= first_cell) ++first_row;
    const std::size_t first_query = first_row * group_;
    const std::size_t query_count = unit_.row_count * group_ - first_query;
    std::size_t column = 0;
    for (std::uint32_t p = starts[0]; p < starts[1]; ++p) {
      const RunPiece& piece = plan_.pieces[view_.first_piece + p];
      Rotate(piece.delta_index);
      kernels_.scores(cells_.k_type, piece.block + cells_.KRow(shape_.layer, kv_head_, piece.first),
                      piece.cell_count, shape_.head_dim_k,
                      rotated_ + first_query * shape_.head_dim_k, shape_.head_dim_k, query_count,
                      shape_.scale, scores_ + first_query * kRunCells + column, kRunCells);
      column += piece.cell_count;
    }
    for (std::size_t row = first_row; row < unit_.row_count; ++row) {
      const std::size_t visible = std::min(SeenCells(row) - first_cell, column);
      for (std::size_t g = 0; g < group_; ++g) {
        const std::size_t query = row * group_ + g;
        float* scores = scores_ + query * kRunCells;
        float rescale = kernels_.softmax_run(scores, visible, &states_[query]);
        std::size_t done = 0;
        for (std::uint32_t p = starts[0]; p < starts[1] && done < visible; ++p) {
          const RunPiece& piece = plan_.pieces[view_.first_piece + p];
          const std::size_t take = std::min<std::size_t>(piece.cell_count, visible - done);
          kernels_.add_values(
              cells_.v_type, piece.block + cells_.VRow(shape_.layer, kv_head_, piece.first), take,
              shape_.head_dim_v, scores + done, rescale, values_ + query * shape_.head_dim_v);
          rescale = 1.0f;
          done += take;
        }
      }
    }
  }

  void Finish(float* out) {
    const std::size_t row_floats = shape_.head_count * shape_.head_dim_v;
    for (std::size_t row = 0; row < unit_.row_count; ++row) {
      for (std::size_t g = 0; g < group_; ++g) {
        const std::size_t query = row * group_ + g;
        float* destination = out + (unit_.first_row + row) * row_floats +
                             (kv_head_ * group_ + g) * shape_.head_dim_v;
        kernels_.scale(values_ + query * shape_.head_dim_v, 1.0f / states_[query].sum,
                       shape_.head_dim_v, destination);
      }
    }
  }

  const kernels::KernelTable& kernels_;
  const AttentionPlan& plan_;
  const CellLayout& cells_;
  const AttentionShape& shape_;
  const AttentionPlan::Unit& unit_;
  const SequenceView& view_;
  const std::size_t kv_head_;
  const std::size_t group_;
  float* const rotated_;
  float* const scores_;
  float* const values_;
  kernels::SoftmaxState* const states_;
  const float* q_ = nullptr;
  std::uint32_t rotated_delta_ = 0;
};

}  // namespace

void AttentionPlan::Build(const StepPlan& plan, Memory& memory, const RopeTable& rope,
                          std::size_t tile_rows) {
  sequences.clear();
  pieces.clear();
  run_starts.clear();
  deltas.clear();
  cosine.clear();
  sine.clear();
  tiles.clear();
  std::size_t first_row = 0;
  for (std::size_t s = 0; s < plan.count; ++s) {
    const StepSequence& source = plan.sequences[s];
    SequenceView view;
    view.first_row = first_row;
    view.row_count = source.new_cells;
    view.past_cells = source.past_cells;
    AppendRuns(source, memory, this, &view);
    const std::size_t pairs = rope.pair_count();
    view.first_angle = cosine.size();
    cosine.resize(cosine.size() + view.delta_count * view.row_count * pairs);
    sine.resize(cosine.size());
    for (std::size_t d = 0; d < view.delta_count; ++d) {
      for (std::size_t row = 0; row < view.row_count; ++row) {
        const std::size_t angle = view.first_angle + (d * view.row_count + row) * pairs;
        const std::int64_t pos = std::int64_t{source.first_new_pos.value} +
                                 static_cast<std::int64_t>(row) - deltas[view.first_delta + d];
        rope.Fill(pos, cosine.data() + angle, sine.data() + angle);
      }
    }
    for (std::size_t row = 0; row < view.row_count; row += tile_rows) {
      tiles.push_back(
          {.sequence = static_cast<std::uint32_t>(s),
           .first_row = static_cast<std::uint32_t>(first_row + row),
           .row_count = static_cast<std::uint32_t>(std::min(tile_rows, view.row_count - row))});
    }
    first_row += view.row_count;
    sequences.push_back(view);
  }
}

std::size_t AttentionTileRows(std::size_t heads_per_kv_head) {
  return std::max<std::size_t>(1, kTileQueries / heads_per_kv_head);
}

std::size_t AttentionWorkspaceFloats(const AttentionShape& shape) {
  const std::size_t queries = Tile::kTileQueriesMax(shape.head_count / shape.kv_head_count);
  return queries * (shape.head_dim_k + kRunCells + shape.head_dim_v +
                    sizeof(kernels::SoftmaxState) / sizeof(float));
}

void RunAttention(const Compute& compute, const AttentionPlan& plan, const CellLayout& cells,
                  const AttentionShape& shape, const float* q, float* out) {
  const auto run = [&](std::uint32_t worker, std::size_t unit) {
    // Later tiles see more cells: start with them, so that the threads end together.
    const AttentionPlan::Unit& tile =
        plan.tiles[plan.tiles.size() - 1 - unit / shape.kv_head_count];
    Tile(compute, plan, cells, shape, tile, unit % shape.kv_head_count, compute.workspace(worker))
        .Run(q, out);
  };
  const std::size_t unit_count = plan.tiles.size() * shape.kv_head_count;
  std::size_t seen = 0;
  for (const SequenceView& view : plan.sequences)
    seen += view.row_count * (view.past_cells + view.row_count);
  if (seen * shape.head_count * (shape.head_dim_k + shape.head_dim_v) < kInlineProducts) {
    for (std::size_t unit = 0; unit < unit_count; ++unit) run(0, unit);
  } else {
    compute.pool->Run(unit_count, run);
  }
}

}  // namespace kvd
