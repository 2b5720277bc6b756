// A unit of work is an item of the plan times one kv head; the query rows of all heads of the group
// go through a run of cells together. Pieces of a run hold scores side by side, so softmax sees the
// whole run whatever blocks it lies in.
#include "engine/layers/attention.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <span>

namespace kvd {
namespace {

using kernels::kRunCells;
using kernels::SoftmaxState;

// So many that unpacking a run's keys costs little beside them, and their queries and values stay
// in the second-level cache.
constexpr std::size_t kItemQueries = 128;
// Below this many multiply-adds waking a second thread costs more than it gains.
constexpr std::size_t kInlineProducts = 128 * 1024;
constexpr SoftmaxState kNothingSeen = {.max = -std::numeric_limits<float>::infinity(), .sum = 0.0f};

std::size_t QueriesMax(const AttentionShape& shape) {
  return std::max(kItemQueries, shape.head_count / shape.kv_head_count);
}

// A slot of partials holds for each head of the layer: maximum, sum, values [head_dim_v].
std::size_t HeadSlotFloats(const AttentionShape& shape) { return 2 + shape.head_dim_v; }

void Prefetch(const std::byte* from, std::size_t byte_count) {
  for (std::size_t at = 0; at < byte_count; at += 64) __builtin_prefetch(from + at);
}

// An item of one kv head; everything it needs lies in its worker's workspace:
//   rotated   [queries, head_dim_k]   for the deltas at hand
//   scores    [queries, kRunCells]
//   values    [queries, head_dim_v]   of the span
//   merged    [queries, head_dim_v]   of the spans before
//   rescales  [queries]
//   states, merged_states  [queries]
//   panel     KeyPanelFloats(head_dim_k)
class ItemRun {
 public:
  ItemRun(const Compute& compute, const AttentionPlan& plan, const CellLayout& cells,
          const AttentionShape& shape, const AttentionItem& item, std::size_t kv_head,
          float* workspace)
      : kernels_(*compute.kernels),
        plan_(plan),
        cells_(cells),
        shape_(shape),
        item_(item),
        tiles_(std::span(plan.tiles).subspan(item.first_tile, item.tile_count)),
        kv_head_(kv_head),
        group_(shape.head_count / shape.kv_head_count),
        panel_(workspace),
        rotated_(panel_ + kernels::KeyPanelFloats(shape.head_dim_k)),
        scores_(rotated_ + QueriesMax(shape) * shape.head_dim_k),
        values_(scores_ + QueriesMax(shape) * kRunCells),
        merged_(values_ + QueriesMax(shape) * shape.head_dim_v),
        rescales_(merged_ + QueriesMax(shape) * shape.head_dim_v),
        states_(reinterpret_cast<SoftmaxState*>(rescales_ + QueriesMax(shape))),
        merged_states_(states_ + QueriesMax(shape)) {
    for (const RowTile& tile : tiles_) row_count_ += tile.row_count;
  }

  void Run(const float* q, float* out) {
    q_ = q;
    rotated_delta_.fill(std::numeric_limits<std::uint32_t>::max());
    const bool merges = item_.is_whole && item_.end_span - item_.first_span > 1;
    if (merges) std::fill_n(merged_states_, row_count_ * group_, kNothingSeen);
    for (std::size_t span = item_.first_span; span < item_.end_span; ++span) {
      AttendSpan(span);
      if (merges) MergeSpan();
      if (!item_.is_whole) StoreSpan(span);
    }
    if (item_.is_whole) {
      Finish(merges ? merged_states_ : states_, merges ? merged_ : values_, out);
    }
  }

 private:
  // Cells [first, end) of the run at hand that a row sees.
  struct Columns {
    std::size_t first;
    std::size_t end;
    bool operator==(const Columns&) const = default;
  };

  const SequenceView& ViewOf(const RowTile& tile) const { return plan_.sequences[tile.sequence]; }

  void AttendSpan(std::size_t span) {
    const std::size_t query_count = row_count_ * group_;
    std::fill_n(states_, query_count, kNothingSeen);
    std::fill_n(values_, query_count * shape_.head_dim_v, 0.0f);
    for (std::size_t run = span * kSpanRuns; run < (span + 1) * kSpanRuns; ++run) {
      std::size_t first_row = 0;
      for (std::size_t t = 0; t < tiles_.size();) {
        const std::span<const RunPiece> pieces = plan_.PiecesOf(ViewOf(tiles_[t]), run);
        const std::size_t first_tile = t;
        std::size_t rows = tiles_[t++].row_count;
        while (t < tiles_.size() && SameCells(pieces, plan_.PiecesOf(ViewOf(tiles_[t]), run))) {
          rows += tiles_[t++].row_count;
        }
        if (!pieces.empty()) AttendRun(run, pieces, first_tile, t, first_row);
        first_row += rows;
      }
    }
  }

  // Tiles [first_tile, end_tile), whose rows are the item's from first_row on, have these pieces.
  void AttendRun(std::size_t run, std::span<const RunPiece> pieces, std::size_t first_tile,
                 std::size_t end_tile, std::size_t first_row) {
    const std::size_t first_cell = run * kRunCells;
    const std::size_t end_column = pieces.back().column + std::size_t{pieces.back().cell_count};
    // What rows [begin, end) see; the first and the last of them see something.
    std::size_t begin = 0, end = 0, row = first_row;
    for (std::size_t t = first_tile; t < end_tile; ++t) {
      const SequenceView& view = ViewOf(tiles_[t]);
      for (std::size_t i = 0; i < tiles_[t].row_count; ++i, ++row) {
        const std::size_t from =
            std::max<std::size_t>(plan_.first_seen[tiles_[t].first_row + i], first_cell);
        const std::size_t to = std::min(AttentionPlan::SeenCells(view, tiles_[t].first_row + i),
                                        first_cell + end_column);
        columns_[row] = from < to ? Columns{from - first_cell, to - first_cell} : Columns{0, 0};
        if (from >= to) continue;
        if (end == 0) begin = row;
        end = row + 1;
      }
    }
    if (end == 0) return;
    PrefetchValues(pieces);
    Score(run, pieces, first_tile, end_tile, first_row, begin, end);
    PrefetchKeys(run + 1, first_tile);
    for (row = begin; row < end;) {
      const std::size_t first = row;
      while (++row < end && columns_[row] == columns_[first]) {
      }
      if (columns_[first].first < columns_[first].end) {
        AddRun(pieces, columns_[first], first * group_, (row - first) * group_);
      }
    }
  }

  void PrefetchValues(std::span<const RunPiece> pieces) const {
    const std::size_t row_bytes = cells_.layers[shape_.layer].v_row_bytes;
    for (const RunPiece& piece : pieces) {
      Prefetch(piece.block + cells_.VRow(shape_.layer, kv_head_, piece.first),
               piece.cell_count * row_bytes);
    }
  }

  void PrefetchKeys(std::size_t run, std::size_t tile) const {
    const std::size_t row_bytes = cells_.layers[shape_.layer].k_row_bytes;
    for (const RunPiece& piece : plan_.PiecesOf(ViewOf(tiles_[tile]), run)) {
      Prefetch(piece.block + cells_.KRow(shape_.layer, kv_head_, piece.first),
               piece.cell_count * row_bytes);
    }
  }

  // The tile's queries for a delta of its sequence; they are the item's from first_row on.
  void Rotate(std::size_t t, std::uint32_t delta_index, std::size_t first_row) {
    if (rotated_delta_[t] == delta_index) return;
    rotated_delta_[t] = delta_index;
    const RowTile& tile = tiles_[t];
    const SequenceView& view = ViewOf(tile);
    const std::size_t pairs = shape_.rotated_dim / 2;
    const std::size_t group_floats = group_ * shape_.head_dim_k;
    const std::size_t row_floats = shape_.head_count * shape_.head_dim_k;
    for (std::size_t i = 0; i < tile.row_count; ++i) {
      float* rotated = rotated_ + (first_row + i) * group_floats;
      std::memcpy(rotated, q_ + (tile.first_row + i) * row_floats + kv_head_ * group_floats,
                  group_floats * sizeof(float));
      const std::size_t angle =
          view.first_angle +
          (delta_index * view.row_count + (tile.first_row - view.first_row) + i) * pairs;
      kernels_.rope(rotated, group_, shape_.head_dim_k, shape_.rotated_dim, shape_.rope_interleaved,
                    plan_.cosine.data() + angle, plan_.sine.data() + angle);
    }
  }

  // Products of the queries of rows [begin, end) with the keys of a run, soft-capped.
  void Score(std::size_t run, std::span<const RunPiece> pieces, std::size_t first_tile,
             std::size_t end_tile, std::size_t first_row, std::size_t begin, std::size_t end) {
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      std::size_t row = first_row;
      for (std::size_t t = first_tile; t < end_tile; row += tiles_[t++].row_count) {
        Rotate(t, plan_.PiecesOf(ViewOf(tiles_[t]), run)[p].delta_index, row);
      }
      const RunPiece& piece = pieces[p];
      kernels_.key_panel(cells_.k_type,
                         piece.block + cells_.KRow(shape_.layer, kv_head_, piece.first),
                         piece.cell_count, shape_.head_dim_k, panel_);
      kernels_.scores(panel_, piece.cell_count, shape_.head_dim_k,
                      rotated_ + begin * group_ * shape_.head_dim_k, shape_.head_dim_k,
                      (end - begin) * group_, shape_.scale,
                      scores_ + begin * group_ * kRunCells + piece.column, kRunCells);
    }
  }

  // Softmax and weighted values of some columns, added to the states of queries [first, first +
  // count).
  void AddRun(std::span<const RunPiece> pieces, const Columns& columns, std::size_t first,
              std::size_t count) {
    float* const scores = scores_ + first * kRunCells;
    const std::size_t seen = columns.end - columns.first;
    for (std::size_t i = 0; shape_.softcap != 0.0f && i < count; ++i) {
      float* const row = scores + i * kRunCells + columns.first;
      kernels_.softcap(row, shape_.softcap, seen, row);
    }
    kernels_.softmax_rows(scores + columns.first, kRunCells, count, seen, states_ + first,
                          rescales_);
    const float* rescales = rescales_;
    for (const RunPiece& piece : pieces) {
      const std::size_t begin = std::max<std::size_t>(piece.column, columns.first);
      const std::size_t end = std::min<std::size_t>(piece.column + piece.cell_count, columns.end);
      if (begin >= end) continue;
      kernels_.add_values(
          cells_.v_type,
          piece.block + cells_.VRow(shape_.layer, kv_head_, piece.first + (begin - piece.column)),
          end - begin, shape_.head_dim_v, scores + begin, kRunCells, rescales, count,
          values_ + first * shape_.head_dim_v, shape_.head_dim_v);
      rescales = nullptr;
    }
  }

  void MergeSpan() {
    for (std::size_t query = 0; query < row_count_ * group_; ++query) {
      kernels_.merge_softmax(states_[query], values_ + query * shape_.head_dim_v, shape_.head_dim_v,
                             &merged_states_[query], merged_ + query * shape_.head_dim_v);
    }
  }

  void StoreSpan(std::size_t span) const {
    std::size_t query = 0;
    for (const RowTile& tile : tiles_) {
      const bool is_seen = tile.first_span <= span && span < tile.end_span;
      for (std::size_t i = 0; i < tile.row_count; ++i) {
        const std::size_t slot =
            tile.first_slot + i * (tile.end_span - tile.first_span) + (span - tile.first_span);
        for (std::size_t g = 0; g < group_; ++g, ++query) {
          if (!is_seen) continue;
          float* const to = plan_.partials.data() + slot * plan_.slot_floats +
                            (kv_head_ * group_ + g) * HeadSlotFloats(shape_);
          to[0] = states_[query].max;
          to[1] = states_[query].sum;
          std::memcpy(to + 2, values_ + query * shape_.head_dim_v,
                      shape_.head_dim_v * sizeof(float));
        }
      }
    }
  }

  void Finish(const SoftmaxState* states, const float* values, float* out) const {
    std::size_t query = 0;
    for (const RowTile& tile : tiles_) {
      for (std::size_t i = 0; i < tile.row_count; ++i) {
        float* to = out + (tile.first_row + i) * shape_.head_count * shape_.head_dim_v +
                    kv_head_ * group_ * shape_.head_dim_v;
        for (std::size_t g = 0; g < group_; ++g, ++query, to += shape_.head_dim_v) {
          kernels_.scale(values + query * shape_.head_dim_v, 1.0f / states[query].sum,
                         shape_.head_dim_v, to);
        }
      }
    }
  }

  const kernels::KernelTable& kernels_;
  const AttentionPlan& plan_;
  const CellLayout& cells_;
  const AttentionShape& shape_;
  const AttentionItem& item_;
  const std::span<const RowTile> tiles_;
  const std::size_t kv_head_;
  const std::size_t group_;
  float* const panel_;
  float* const rotated_;
  float* const scores_;
  float* const values_;
  float* const merged_;
  float* const rescales_;
  SoftmaxState* const states_;
  SoftmaxState* const merged_states_;
  std::size_t row_count_ = 0;
  const float* q_ = nullptr;
  // An item has a row per tile at least, and no more rows than queries.
  std::array<std::uint32_t, kItemQueries> rotated_delta_;  // by tile
  std::array<Columns, kItemQueries> columns_;              // by row
};

// Merges the spans of a row, for the heads of one kv head.
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
    compute.kernels->scale(values, 1.0f / merged.sum, shape.head_dim_v,
                           out + (row.row * shape.head_count + head) * shape.head_dim_v);
  }
}

// unit(worker, index) for each index; on the caller alone if they are few multiply-adds together.
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

std::size_t AttentionWorkspaceFloats(const AttentionShape& shape) {
  constexpr std::size_t kStateFloats = sizeof(SoftmaxState) / sizeof(float);
  return QueriesMax(shape) *
             (shape.head_dim_k + kRunCells + 2 * shape.head_dim_v + 1 + 2 * kStateFloats) +
         kernels::KeyPanelFloats(shape.head_dim_k);
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
             const AttentionItem& item = plan.items[unit / shape.kv_head_count];
             ItemRun(compute, plan, cells, shape, item, unit % shape.kv_head_count,
                     compute.workspace(worker))
                 .Run(q, out);
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

}  // namespace kvd
