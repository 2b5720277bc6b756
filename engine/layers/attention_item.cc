// The query rows of all heads of the group go through a run of cells together. Pieces of a run hold
// scores side by side, so softmax sees the whole run whatever blocks it lies in.
#include "engine/layers/attention_item.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <span>

#include "engine/layers/cells_ahead.h"
#include "kernels/bf16_panel.h"

namespace kvd {
namespace {

using kernels::kRunCells;
using kernels::SoftmaxState;

std::size_t QueriesMax(const AttentionShape& shape) {
  return std::max(kItemQueries, shape.head_count / shape.kv_head_count);
}

// The kernels of attention in bf16, if they may be used.
const kernels::Bf16Attention* Bf16Of(const Compute& compute, const CellLayout& cells,
                                     const AttentionShape& shape) {
  const bool rounded =
      cells.k_type != kernels::DataType::kF32 && cells.v_type != kernels::DataType::kF32;
  return compute.exact || !shape.may_round || !rounded ? nullptr : compute.kernels->bf16_attention;
}

// Bytes of an element of a cell that is not f32, at most.
constexpr std::size_t kRoundedBytesMax = 2;

// What attention in bf16 needs of a workspace besides, in floats: parts of 64 bytes each.
//   gathered     [kRunCells] rows of values, for runs in pieces
//   key_panel, value_panel
//   rounded      [queries] rows of Bf16RowBytes(head_dim_k): `rotated` in bf16
//   weights      [queries, kRunCells] in bf16
struct Bf16Room {
  explicit Bf16Room(const AttentionShape& shape)
      : gathered(kRunCells * shape.head_dim_v * kRoundedBytesMax / sizeof(float)),
        key_panel(kernels::Bf16KeyPanelBytes(shape.head_dim_k) / sizeof(float)),
        value_panel(kernels::Bf16ValuePanelBytes(shape.head_dim_v) / sizeof(float)),
        rounded(QueriesMax(shape) * kernels::Bf16RowBytes(shape.head_dim_k) / sizeof(float)),
        weights(QueriesMax(shape) * kRunCells * sizeof(std::uint16_t) / sizeof(float)) {}
  std::size_t total() const { return gathered + key_panel + value_panel + rounded + weights; }

  std::size_t gathered, key_panel, value_panel, rounded, weights;
};

// An item of one kv head; everything it needs lies in its worker's workspace:
//   rotated   [queries, head_dim_k]   for the deltas at hand
//   scores    [queries, kRunCells]
//   values    [queries, head_dim_v]   of the span
//   merged    [queries, head_dim_v]   of the spans before
//   rescales  [queries]
//   states, merged_states  [queries]
//   panel     KeyPanelFloats(head_dim_k)
// behind Bf16Room.
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
    LookAhead(run, first_tile);
    ahead_.Ask(6);
    Score(run, pieces, first_tile, end_tile, first_row, begin, end);
    ahead_.Ask(4);
    if (bf16_ != nullptr) {
      LayOutValues(pieces);
      ahead_.Ask(3);
    }
    for (row = begin; row < end;) {
      const std::size_t first = row;
      ++row;
      while (row < end && columns_[row] == columns_[first]) ++row;
      if (columns_[first].first < columns_[first].end) {
        AddRun(pieces, columns_[first], first * group_, (row - first) * group_);
      }
    }
  }

  // What is read next: the run behind `run`, or the first one of the next unit.
  void LookAhead(std::size_t run, std::size_t tile) {
    ahead_.Clear();
    const std::span<const RunPiece> next = plan_.PiecesOf(ViewOf(tiles_[tile]), run + 1);
    if (run + 1 < std::size_t{item_.end_span} * kSpanRuns && !next.empty()) {
      return PutAhead(next, kv_head_);
    }
    const std::size_t index = next_unit_ / shape_.kv_head_count;
    if (index >= plan_.items.size()) return;
    const AttentionItem& item = plan_.items[index];
    const SequenceView& view = ViewOf(plan_.tiles[item.first_tile]);
    PutAhead(plan_.PiecesOf(view, std::max(item.first_span * kSpanRuns, view.skipped_runs)),
             next_unit_ % shape_.kv_head_count);
  }

  void PutAhead(std::span<const RunPiece> pieces, std::size_t head) {
    const auto& layer = cells_.layers[shape_.layer];
    for (const RunPiece& piece : pieces) {
      ahead_.Put(piece.block + cells_.KRow(shape_.layer, head, piece.first),
                 piece.cell_count * layer.k_row_bytes);
    }
    for (const RunPiece& piece : pieces) {
      ahead_.Put(piece.block + cells_.VRow(shape_.layer, head, piece.first),
                 piece.cell_count * layer.v_row_bytes);
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
    if (bf16_ == nullptr) return;
    const std::size_t first = first_row * group_;
    kernels_.round_rows(rotated_ + first * shape_.head_dim_k, shape_.head_dim_k,
                        tile.row_count * group_, shape_.head_dim_k, Rounded(first));
  }

  std::byte* Rounded(std::size_t query) const {
    return reinterpret_cast<std::byte*>(rounded_) +
           query * kernels::Bf16RowBytes(shape_.head_dim_k);
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
      const std::byte* keys = piece.block + cells_.KRow(shape_.layer, kv_head_, piece.first);
      const std::size_t first = begin * group_, count = (end - begin) * group_;
      float* const scores = scores_ + first * kRunCells + piece.column;
      if (bf16_ != nullptr) {
        bf16_->key_panel(cells_.k_type, keys, piece.cell_count, shape_.head_dim_k, key_panel_);
        if (p == 0) ahead_.Ask(5);
        bf16_->scores(key_panel_, piece.cell_count, shape_.head_dim_k, Rounded(first), count,
                      shape_.scale, scores, kRunCells);
      } else {
        kernels_.key_panel(cells_.k_type, keys, piece.cell_count, shape_.head_dim_k, panel_);
        if (p == 0) ahead_.Ask(5);
        kernels_.scores(panel_, piece.cell_count, shape_.head_dim_k,
                        rotated_ + first * shape_.head_dim_k, shape_.head_dim_k, count,
                        shape_.scale, scores, kRunCells);
      }
    }
  }

  void LayOutValues(std::span<const RunPiece> pieces) {
    const auto values = [&](const RunPiece& piece) {
      return piece.block + cells_.VRow(shape_.layer, kv_head_, piece.first);
    };
    const std::byte* from = values(pieces.front());
    if (pieces.size() > 1) {
      auto* const gathered = reinterpret_cast<std::byte*>(gathered_);
      std::byte* to = gathered;
      for (const RunPiece& piece : pieces) {
        const std::size_t byte_count = piece.cell_count * cells_.layers[shape_.layer].v_row_bytes;
        std::memcpy(to, values(piece), byte_count);
        to += byte_count;
      }
      from = gathered;
    }
    bf16_->value_panel(cells_.v_type, from, pieces.front().column,
                       pieces.back().column + std::size_t{pieces.back().cell_count},
                       shape_.head_dim_v, value_panel_);
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
  const std::size_t next_unit_;  // probably this thread's next one
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
  // An item has a row per tile at least, and no more rows than queries.
  std::array<std::uint32_t, kItemQueries> rotated_delta_;  // by tile
  std::array<Columns, kItemQueries> columns_;              // by row
};

}  // namespace

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
