// A unit of work is a tile of query rows times one kv head; the query rows of all heads of the
// group go through a run of cells together. Pieces of a run hold scores side by side, so softmax
// sees the whole run whatever blocks it lies in.
#include "engine/layers/attention.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "shm/check.h"

namespace kvd {
namespace {

constexpr std::size_t kRunCells = layout::kBlockCells;
constexpr std::size_t kTileQueries = 32;
// Below this many multiply-adds waking a second thread costs more than it gains.
constexpr std::size_t kInlineProducts = 128 * 1024;

// Effective positions of a sequence's cells, one after the other. Extents are in order of both.
class PositionCursor {
 public:
  // Stands at the first cell whose position is at least `limit`, which the sequence has.
  PositionCursor(const GroupPart& part, std::uint32_t group, const Memory& memory,
                 std::int64_t limit)
      : part_(part), group_(group), memory_(memory), extent_(part.extents.size()) {
    do {
      Enter(extent_ - 1);
    } while (extent_ > 0 && position() >= limit);
    while (position() < limit) Next();
  }

  std::uint32_t cell() const { return cell_; }
  std::int64_t position() const {
    return std::int64_t{records_[cell_ - first_].stored_pos} + part_.extents[extent_].delta;
  }
  // REQUIRES: it is not the last cell.
  void Next() {
    ++cell_;
    if (extent_ + 1 < part_.extents.size() && part_.extents[extent_ + 1].start == cell_) {
      Enter(extent_ + 1);
    }
  }

 private:
  void Enter(std::size_t index) {
    const layout::Extent& extent = part_.extents[index];
    extent_ = index;
    first_ = cell_ = extent.start;
    records_ = memory_.BlockCells(group_, BlockId{extent.block}) + extent.first;
  }

  const GroupPart& part_;
  const std::uint32_t group_;
  const Memory& memory_;
  std::size_t extent_;
  std::uint32_t cell_ = 0;
  std::uint32_t first_ = 0;                      // of the extent
  const layout::CellRecord* records_ = nullptr;  // of the extent
};

// What each row of the sequence sees first.
void AppendFirstSeen(const StepSequence& source, const Memory& memory, const AttentionReach& reach,
                     AttentionPlan* plan) {
  if (reach.window == 0) {
    plan->first_seen.resize(plan->first_seen.size() + source.new_cells, 0);
    return;
  }
  const std::int64_t first_limit = std::int64_t{source.first_new_pos.value} - reach.window + 1;
  PositionCursor cursor(source.groups[reach.group], reach.group, memory, first_limit);
  for (std::uint32_t row = 0; row < source.new_cells; ++row) {
    while (cursor.position() < first_limit + row) cursor.Next();
    plan->first_seen.push_back(cursor.cell());
  }
}

// Cuts a sequence's extents into runs of kRunCells cells, from the first run that a row sees on.
void AppendRuns(const StepSequence& source, std::uint32_t group, Memory& memory,
                AttentionPlan* plan, SequenceView* view) {
  const GroupPart& part = source.groups[group];
  const std::size_t cell_count = std::size_t{source.past_cells} + source.new_cells;
  const std::size_t first_cell = plan->first_seen[view->first_row];
  view->first_piece = plan->pieces.size();
  view->first_run = plan->run_starts.size();
  view->skipped_runs = first_cell / kRunCells;
  view->first_delta = plan->deltas.size();
  std::size_t next_run = view->skipped_runs;
  for (std::size_t e = 0; e < part.extents.size(); ++e) {
    const layout::Extent& extent = part.extents[e];
    const std::size_t end = e + 1 < part.extents.size() ? part.extents[e + 1].start : cell_count;
    if (end <= first_cell) continue;
    const auto known = plan->deltas.begin() + static_cast<std::ptrdiff_t>(view->first_delta);
    const auto found = std::find(known, plan->deltas.end(), extent.delta);
    const auto delta_index = static_cast<std::uint32_t>(found - known);
    if (found == plan->deltas.end()) plan->deltas.push_back(extent.delta);
    const std::byte* block = memory.BlockBytes(group, BlockId{extent.block});
    for (std::size_t cell = std::max<std::size_t>(extent.start, first_cell); cell < end;) {
      const std::size_t column = cell % kRunCells;
      if (cell / kRunCells == next_run) {
        plan->run_starts.push_back(
            static_cast<std::uint32_t>(plan->pieces.size() - view->first_piece));
        ++next_run;
      }
      const std::size_t take = std::min(end - cell, kRunCells - column);
      plan->pieces.push_back(
          {.block = block,
           .first = static_cast<std::uint16_t>(extent.first + (cell - extent.start)),
           .cell_count = static_cast<std::uint16_t>(take),
           .column = static_cast<std::uint16_t>(column),
           .delta_index = delta_index});
      cell += take;
    }
  }
  view->run_count = plan->run_starts.size() - view->first_run;
  plan->run_starts.push_back(static_cast<std::uint32_t>(plan->pieces.size() - view->first_piece));
  view->delta_count = plan->deltas.size() - view->first_delta;
  KVD_ASSERT(view->skipped_runs + view->run_count == (cell_count + kRunCells - 1) / kRunCells);
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
    // The last row sees furthest, the first one furthest back.
    const std::size_t seen = SeenCells(unit_.row_count - 1);
    for (std::size_t run = FirstSeen(0) / kRunCells; run * kRunCells < seen; ++run) RunCells(run);
    Finish(out);
  }

 private:
  // The tile's row sees cells [FirstSeen, SeenCells).
  std::size_t FirstSeen(std::size_t row) const { return plan_.first_seen[unit_.first_row + row]; }
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
    const std::size_t first_cell = run * kRunCells;
    // Rows before these see nothing of the run yet, rows behind them nothing any more.
    std::size_t first_row = 0;
    while (SeenCells(first_row) <= first_cell) ++first_row;
    std::size_t end_row = unit_.row_count;
    while (FirstSeen(end_row - 1) >= first_cell + kRunCells) --end_row;
    const std::span<const RunPiece> pieces = PiecesOf(run);
    Score(pieces, first_row, end_row);
    const std::size_t end_column = pieces.back().column + std::size_t{pieces.back().cell_count};
    for (std::size_t row = first_row; row < end_row; ++row) {
      const std::size_t first = std::max(FirstSeen(row), first_cell) - first_cell;
      const std::size_t end = std::min(SeenCells(row) - first_cell, end_column);
      for (std::size_t g = 0; g < group_; ++g) {
        const std::size_t query = row * group_ + g;
        float* scores = scores_ + query * kRunCells;
        if (shape_.softcap != 0.0f) {
          kernels_.softcap(scores + first, shape_.softcap, end - first, scores + first);
        }
        AddRun(pieces, first, end, scores, query);
      }
    }
  }

  std::span<const RunPiece> PiecesOf(std::size_t run) const {
    const std::uint32_t* starts =
        plan_.run_starts.data() + view_.first_run + (run - view_.skipped_runs);
    return std::span(plan_.pieces).subspan(view_.first_piece + starts[0], starts[1] - starts[0]);
  }

  // Products of the queries of rows [first_row, end_row) with the keys of a run.
  void Score(std::span<const RunPiece> pieces, std::size_t first_row, std::size_t end_row) {
    const std::size_t first_query = first_row * group_;
    for (const RunPiece& piece : pieces) {
      Rotate(piece.delta_index);
      kernels_.scores(cells_.k_type, piece.block + cells_.KRow(shape_.layer, kv_head_, piece.first),
                      piece.cell_count, shape_.head_dim_k,
                      rotated_ + first_query * shape_.head_dim_k, shape_.head_dim_k,
                      (end_row - first_row) * group_, shape_.scale,
                      scores_ + first_query * kRunCells + piece.column, kRunCells);
    }
  }

  // Softmax and weighted values of columns [first, end), merged into the query's state.
  void AddRun(std::span<const RunPiece> pieces, std::size_t first, std::size_t end, float* scores,
              std::size_t query) {
    float rescale = kernels_.softmax_run(scores + first, end - first, &states_[query]);
    for (const RunPiece& piece : pieces) {
      const std::size_t begin = std::max<std::size_t>(piece.column, first);
      const std::size_t stop = std::min<std::size_t>(piece.column + piece.cell_count, end);
      if (begin >= stop) continue;
      kernels_.add_values(
          cells_.v_type,
          piece.block + cells_.VRow(shape_.layer, kv_head_, piece.first + (begin - piece.column)),
          stop - begin, shape_.head_dim_v, scores + begin, rescale,
          values_ + query * shape_.head_dim_v);
      rescale = 1.0f;
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

void AttentionPlan::Build(const StepPlan& plan, Memory& memory, const ModelRopes& ropes,
                          std::size_t kind, const AttentionReach& reach, std::size_t tile_rows) {
  sequences.clear();
  pieces.clear();
  run_starts.clear();
  first_seen.clear();
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
    AppendFirstSeen(source, memory, reach, this);
    AppendRuns(source, reach.group, memory, this, &view);
    const RopeTable& rope = ropes.table(kind, source.key_form);
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
    seen += view.row_count * view.run_count * kRunCells;
  if (seen * shape.head_count * (shape.head_dim_k + shape.head_dim_v) < kInlineProducts) {
    for (std::size_t unit = 0; unit < unit_count; ++unit) run(0, unit);
  } else {
    compute.pool->Run(unit_count, run);
  }
}

}  // namespace kvd
