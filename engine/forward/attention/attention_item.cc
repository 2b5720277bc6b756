// The query rows of all heads that share a kv head are computed together, run by run. The scores of
// all fragments of a run are adjacent, so softmax sees the whole run wherever the run's cells are.
#include "engine/forward/attention/attention_item.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <span>

#include "engine/forward/compute/portable_math.h"
#include "kernels/panels.h"

namespace kvd {
namespace {

using kernels::kRunCells;
using kernels::SoftmaxState;

std::size_t QueriesMax(const AttentionShape& shape) {
  return std::max(kItemQueries, shape.head_count / shape.kv_head_count);
}

// The kernels of attention in bf16; null if the layer may not compute attention in bf16.
const kernels::Bf16Attention* Bf16Of(const Compute& compute, const CellLayout& cells,
                                     const AttentionShape& shape) {
  const bool rounded = cells.k_type != kernels::DataType::kF32 &&
                       cells.value_type(shape.layer) != kernels::DataType::kF32;
  return compute.exact || !shape.may_round || !rounded ? nullptr : compute.kernels->bf16_attention;
}

// Most bytes of an element of a cell that is not f32.
constexpr std::size_t kRoundedBytesMax = 2;

// Additional workspace of attention in bf16, in floats; each part is a multiple of 64 bytes:
//   gathered     [kRunCells] rows of values (or of keys that contain them), for runs in several
//                fragments
//   key_panel, value_panel
//   rounded      [queries] rows of Bf16RowBytes(head_dim_k): `rotated` in bf16
//   weights      [queries, kRunCells] in bf16
struct Bf16Room {
  explicit Bf16Room(const AttentionShape& shape)
      : gathered(kRunCells * std::max(shape.head_dim_k, shape.head_dim_v) * kRoundedBytesMax /
                 sizeof(float)),
        key_panel(kernels::Bf16KeyPanelBytes(shape.head_dim_k) / sizeof(float)),
        value_panel(kernels::Bf16ValuePanelBytes(shape.head_dim_v) / sizeof(float)),
        rounded(QueriesMax(shape) * kernels::Bf16RowBytes(shape.head_dim_k) / sizeof(float)),
        weights(QueriesMax(shape) * kRunCells * sizeof(std::uint16_t) / sizeof(float)) {}
  std::size_t total() const { return gathered + key_panel + value_panel + rounded + weights; }

  std::size_t gathered, key_panel, value_panel, rounded, weights;
};

// Computes an item for one kv head. The data of an ItemRun is in the worker's workspace, after
// Bf16Room:
//   panel     KeyPanelFloats(head_dim_k)
//   rotated   [queries, head_dim_k]   for the current deltas
//   scores    [queries, kRunCells]
//   values    [queries, head_dim_v]   of the current span
//   merged    [queries, head_dim_v]   of the spans before it
//   rescales  [queries]
//   states, merged_states  [queries]
class ItemRun {
 public:
  ItemRun(const Compute& compute, const AttentionPlan& plan, const CellLayout& cells,
          const AttentionShape& shape, std::size_t unit, float* workspace)
      : kernels_(*compute.kernels),
        plan_(plan),
        cells_(cells),
        shape_(shape),
        item_(plan.items[unit / shape.kv_head_count]),
        next_unit_(unit + 1),
        tiles_(std::span(plan.tiles).subspan(item_.first_tile, item_.tile_count)),
        kv_head_(unit % shape.kv_head_count),
        group_(shape.head_count / shape.kv_head_count),
        bf16_(Bf16Of(compute, cells, shape)),
        gathered_(workspace),
        key_panel_(gathered_ + Bf16Room(shape).gathered),
        value_panel_(key_panel_ + Bf16Room(shape).key_panel),
        rounded_(value_panel_ + Bf16Room(shape).value_panel),
        weights_(reinterpret_cast<std::uint16_t*>(rounded_ + Bf16Room(shape).rounded)),
        panel_(workspace + Bf16Room(shape).total()),
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
  // A row sees cells [first, end) of the current run.
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
        const std::span<const RunFragment> fragments = plan_.FragmentsOf(ViewOf(tiles_[t]), run);
        const std::size_t first_tile = t;
        std::size_t rows = tiles_[t++].row_count;
        while (t < tiles_.size() &&
               SameCells(fragments, plan_.FragmentsOf(ViewOf(tiles_[t]), run))) {
          rows += tiles_[t++].row_count;
        }
        if (!fragments.empty()) AttendRun(run, fragments, first_tile, t, first_row);
        first_row += rows;
      }
    }
  }

  // Adds a run's attention to the rows of tiles [first_tile, end_tile). The run consists of
  // `fragments` for all these tiles; the rows of the tiles start at the item's row first_row.
  void AttendRun(std::size_t run, std::span<const RunFragment> fragments, std::size_t first_tile,
                 std::size_t end_tile, std::size_t first_row) {
    const std::size_t first_cell = run * kRunCells;
    const std::size_t end_column =
        fragments.back().column + std::size_t{fragments.back().cell_count};
    // [begin, end) are the rows from the first to the last one that sees a cell of the run.
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
    LookAhead(run, first_tile);
    ahead_.Ask(6);
    Score(run, fragments, first_tile, end_tile, first_row, begin, end);
    ahead_.Ask(4);
    if (bf16_ != nullptr) {
      LayOutValues(fragments);
      ahead_.Ask(3);
    }
    for (row = begin; row < end;) {
      const std::size_t first = row;
      ++row;
      while (row < end && columns_[row] == columns_[first]) ++row;
      if (columns_[first].first < columns_[first].end) {
        AddRun(fragments, columns_[first], first * group_, (row - first) * group_);
      }
    }
  }

  // Prefetches the data that is read next: the run after `run`, or the first run of the next unit.
  void LookAhead(std::size_t run, std::size_t tile) {
    ahead_.Clear();
    const std::span<const RunFragment> next = plan_.FragmentsOf(ViewOf(tiles_[tile]), run + 1);
    if (run + 1 < std::size_t{item_.end_span} * kSpanRuns && !next.empty()) {
      return PutAhead(next, kv_head_);
    }
    const std::size_t index = next_unit_ / shape_.kv_head_count;
    if (index >= plan_.items.size()) return;
    const AttentionItem& item = plan_.items[index];
    const SequenceView& view = ViewOf(plan_.tiles[item.first_tile]);
    PutAhead(plan_.FragmentsOf(view, std::max(item.first_span * kSpanRuns, view.skipped_runs)),
             next_unit_ % shape_.kv_head_count);
  }

  void PutAhead(std::span<const RunFragment> fragments, std::size_t head) {
    const auto& layer = cells_.layers[shape_.layer];
    for (const RunFragment& fragment : fragments) {
      ahead_.Put(fragment.block + cells_.KRow(shape_.layer, head, fragment.first),
                 fragment.cell_count * layer.k_row_bytes);
    }
    if (layer.values_in_keys) return;
    for (const RunFragment& fragment : fragments) {
      ahead_.Put(fragment.block + cells_.VRow(shape_.layer, head, fragment.first),
                 fragment.cell_count * layer.v_row_bytes);
    }
  }

  // Rotates the tile's queries for a delta of the tile's sequence. The queries start at the item's
  // row first_row.
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
      kernels_.rope(rotated + shape_.first_rotated, group_, shape_.head_dim_k, shape_.rotated_dim,
                    shape_.rope_interleaved, plan_.cosine.data() + angle,
                    plan_.sine.data() + angle);
    }
    if (bf16_ == nullptr) return;
    const std::size_t first = first_row * group_;
    kernels_.round_rows(rotated_ + first * shape_.head_dim_k, shape_.head_dim_k,
                        tile.row_count * group_, shape_.head_dim_k, Rounded(first));
  }

  std::byte* Rounded(std::size_t query) const {
    return reinterpret_cast<std::byte*>(rounded_) +
           query * kernels::Bf16RowBytes(shape_.head_dim_k);
  }

  // Products of the queries of rows [begin, end) with the keys of a run.
  void Score(std::size_t run, std::span<const RunFragment> fragments, std::size_t first_tile,
             std::size_t end_tile, std::size_t first_row, std::size_t begin, std::size_t end) {
    for (std::size_t p = 0; p < fragments.size(); ++p) {
      std::size_t row = first_row;
      for (std::size_t t = first_tile; t < end_tile; row += tiles_[t++].row_count) {
        Rotate(t, plan_.FragmentsOf(ViewOf(tiles_[t]), run)[p].delta_index, row);
      }
      const RunFragment& fragment = fragments[p];
      const std::byte* keys = fragment.block + cells_.KRow(shape_.layer, kv_head_, fragment.first);
      const std::size_t first = begin * group_, count = (end - begin) * group_;
      float* const scores = scores_ + first * kRunCells + fragment.column;
      if (bf16_ != nullptr) {
        bf16_->key_panel(cells_.k_type, keys, fragment.cell_count, shape_.head_dim_k, key_panel_);
        if (p == 0) ahead_.Ask(5);
        bf16_->scores(key_panel_, fragment.cell_count, shape_.head_dim_k, Rounded(first), count,
                      shape_.scale, scores, kRunCells);
      } else {
        kernels_.key_panel(cells_.k_type, keys, fragment.cell_count, shape_.head_dim_k, panel_);
        if (p == 0) ahead_.Ask(5);
        kernels_.scores(panel_, fragment.cell_count, shape_.head_dim_k,
                        rotated_ + first * shape_.head_dim_k, shape_.head_dim_k, count,
                        shape_.scale, scores, kRunCells);
      }
    }
  }

  void LayOutValues(std::span<const RunFragment> fragments) {
    const auto values = [&](const RunFragment& fragment) {
      return fragment.block + cells_.VRow(shape_.layer, kv_head_, fragment.first);
    };
    const std::size_t stride = cells_.layers[shape_.layer].v_row_bytes;
    const std::byte* from = values(fragments.front());
    if (fragments.size() > 1) {
      auto* const gathered = reinterpret_cast<std::byte*>(gathered_);
      std::byte* to = gathered;
      for (const RunFragment& fragment : fragments) {
        const std::size_t byte_count = fragment.cell_count * stride;
        std::memcpy(to, values(fragment), byte_count);
        to += byte_count;
      }
      from = gathered;
    }
    bf16_->value_panel(cells_.value_type(shape_.layer), from, stride, fragments.front().column,
                       fragments.back().column + std::size_t{fragments.back().cell_count},
                       shape_.head_dim_v, value_panel_);
  }

  // Adds softmax and weighted values of the given columns to the states of queries [first, first +
  // count), after soft-capping the scores.
  void AddRun(std::span<const RunFragment> fragments, const Columns& columns, std::size_t first,
              std::size_t count) {
    float* const scores = scores_ + first * kRunCells;
    const std::size_t seen = columns.end - columns.first;
    for (std::size_t i = 0; shape_.softcap != 0.0f && i < count; ++i) {
      float* const row = scores + i * kRunCells + columns.first;
      kernels_.softcap(row, shape_.softcap, seen, row);
    }
    if (bf16_ != nullptr) {
      bf16_->softmax_rows(scores, kRunCells, count, columns.first, columns.end, states_ + first,
                          rescales_, weights_);
      ahead_.Ask(2);
      bf16_->add_values(value_panel_, columns.first, columns.end, shape_.head_dim_v, weights_,
                        rescales_, count, values_ + first * shape_.head_dim_v, shape_.head_dim_v);
      ahead_.Ask(1);
      return;
    }
    kernels_.softmax_rows(scores + columns.first, kRunCells, count, seen, states_ + first,
                          rescales_);
    ahead_.Ask(2);
    const float* rescales = rescales_;
    for (const RunFragment& fragment : fragments) {
      const std::size_t begin = std::max<std::size_t>(fragment.column, columns.first);
      const std::size_t end =
          std::min<std::size_t>(fragment.column + fragment.cell_count, columns.end);
      if (begin >= end) continue;
      const std::size_t cell = fragment.first + (begin - fragment.column);
      kernels_.add_values(cells_.value_type(shape_.layer),
                          fragment.block + cells_.VRow(shape_.layer, kv_head_, cell),
                          cells_.layers[shape_.layer].v_row_bytes, end - begin, shape_.head_dim_v,
                          scores + begin, kRunCells, rescales, count,
                          values_ + first * shape_.head_dim_v, shape_.head_dim_v);
      rescales = nullptr;
    }
    ahead_.Ask(1);
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
          kernels_.scale(values + query * shape_.head_dim_v,
                         FinalFactor(shape_, kv_head_ * group_ + g, states[query]),
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
  const std::size_t next_unit_;  // the unit that this thread probably computes next
  const std::span<const RowTile> tiles_;
  const std::size_t kv_head_;
  const std::size_t group_;
  const kernels::Bf16Attention* bf16_;  // null: the item is computed in f32
  float* const gathered_;
  float* const key_panel_;
  float* const value_panel_;
  float* const rounded_;
  std::uint16_t* const weights_;
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
  CellsAhead ahead_;
  // Each tile has at least one row, and an item has at most kItemQueries rows.
  std::array<std::uint32_t, kItemQueries> rotated_delta_;  // by tile
  std::array<Columns, kItemQueries> columns_;              // by row
};

}  // namespace

float FinalFactor(const AttentionShape& shape, std::size_t head, const SoftmaxState& state) {
  if (shape.sinks == nullptr) return 1.0f / state.sum;
  const float largest = std::max(state.max, shape.sinks[head]);
  const float rescale = PortableExp(state.max - largest);
  return rescale / (state.sum * rescale + PortableExp(shape.sinks[head] - largest));
}

std::size_t AttentionWorkspaceFloats(const AttentionShape& shape) {
  constexpr std::size_t kStateFloats = sizeof(SoftmaxState) / sizeof(float);
  return QueriesMax(shape) *
             (shape.head_dim_k + kRunCells + 2 * shape.head_dim_v + 1 + 2 * kStateFloats) +
         kernels::KeyPanelFloats(shape.head_dim_k) + Bf16Room(shape).total();
}

void RunAttentionUnit(const Compute& compute, const AttentionPlan& plan, const CellLayout& cells,
                      const AttentionShape& shape, std::size_t unit, float* workspace,
                      const float* q, float* out) {
  ItemRun(compute, plan, cells, shape, unit, workspace).Run(q, out);
}

}  // namespace kvd
