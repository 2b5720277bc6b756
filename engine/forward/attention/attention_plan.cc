#include "engine/forward/attention/attention_plan.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace kvd {
namespace {

using kernels::kRunCells;
static_assert(kRunCells == layout::kBlockCells);

// The work of attention is divided into this number of items per thread, if possible, so that the
// threads end at about the same time.
constexpr std::size_t kItemsPerThread = 4;
// Threads end nearly together if no thread has more than 1 + 1 / kNearly times its share of the
// work.
constexpr std::uint64_t kNearly = 16;
// Maximum number of floats in `partials`, which holds the results of split items. An item that
// would need more floats is not split.
constexpr std::size_t kPartialFloatsMax = std::size_t{16} << 20;
// Reading a run of cells from memory costs about as much as the attention of kRowsPerRead rows to
// the run.
constexpr std::size_t kRowsPerRead = 2;

// Iterates over the effective positions of a sequence's cells. Extents are sorted by cell and by
// position.
class PositionCursor {
 public:
  // Starts at the first cell whose position is at least `limit`. REQUIRES: the sequence has a cell
  // whose position is at least `limit`.
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
  // Moves to the next cell of the sequence. REQUIRES: the current cell is not the sequence's last.
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

// Appends the first cell that each row of the sequence sees.
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

// Divides a sequence's extents into runs of kRunCells cells, starting with the first run that a row
// sees.
void AppendRuns(const StepSequence& source, std::uint32_t group, Memory& memory,
                AttentionPlan* plan, SequenceView* view) {
  const GroupPart& part = source.groups[group];
  const std::size_t cell_count = std::size_t{source.past_cells} + source.new_cells;
  const std::size_t first_cell = plan->first_seen[view->first_row];
  view->first_fragment = plan->fragments.size();
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
            static_cast<std::uint32_t>(plan->fragments.size() - view->first_fragment));
        ++next_run;
      }
      const std::size_t take = std::min(end - cell, kRunCells - column);
      plan->fragments.push_back(
          {.block = block,
           .first = static_cast<std::uint16_t>(extent.first + (cell - extent.start)),
           .cell_count = static_cast<std::uint16_t>(take),
           .column = static_cast<std::uint16_t>(column),
           .delta_index = delta_index});
      cell += take;
    }
  }
  view->run_count = plan->run_starts.size() - view->first_run;
  view->fragment_count = plan->fragments.size() - view->first_fragment;
  plan->run_starts.push_back(
      static_cast<std::uint32_t>(plan->fragments.size() - view->first_fragment));
  view->delta_count = plan->deltas.size() - view->first_delta;
  KVD_ASSERT(view->skipped_runs + view->run_count == (cell_count + kRunCells - 1) / kRunCells);
}

auto PlaceOf(const RunFragment& fragment) {
  return std::tuple(fragment.block, fragment.first, fragment.cell_count, fragment.column);
}

}  // namespace

bool SameCells(std::span<const RunFragment> a, std::span<const RunFragment> b) {
  return std::ranges::equal(a, b, {}, PlaceOf, PlaceOf);
}

void AttentionPlan::AppendSequence(const StepSequence& source, Memory& memory,
                                   const RopeTable& rope, const AttentionReach& reach,
                                   std::size_t first_row) {
  SequenceView view;
  view.first_row = first_row;
  view.row_count = source.new_cells;
  view.past_cells = source.past_cells;
  AppendFirstSeen(source, memory, reach, this);
  AppendRuns(source, reach.group, memory, this, &view);
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
  sequences.push_back(view);
}

// Full tiles come first, sequence by sequence. Tiles with fewer rows follow, sorted so that tiles
// that share cells are adjacent.
void AttentionPlan::CutTiles(const AttentionTiling& tiling) {
  const auto append = [&](std::size_t s, std::size_t first, std::size_t count) {
    const std::size_t last_seen = SeenCells(sequences[s], first + count - 1);
    tiles.push_back(
        {.sequence = static_cast<std::uint32_t>(s),
         .first_row = static_cast<std::uint32_t>(first),
         .row_count = static_cast<std::uint32_t>(count),
         .first_span = static_cast<std::uint32_t>(first_seen[first] / kSpanCells),
         .end_span = static_cast<std::uint32_t>((last_seen + kSpanCells - 1) / kSpanCells)});
  };
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const SequenceView& view = sequences[s];
    for (std::size_t row = 0; row + tiling.tile_rows <= view.row_count; row += tiling.tile_rows) {
      append(s, view.first_row + row, tiling.tile_rows);
    }
  }
  const std::size_t full_count = tiles.size();
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const SequenceView& view = sequences[s];
    const std::size_t rest = view.row_count % tiling.tile_rows;
    if (rest != 0) append(s, view.first_row + view.row_count - rest, rest);
  }
  const auto places = [&](const RowTile& tile) {
    const SequenceView& view = sequences[tile.sequence];
    return std::span(fragments).subspan(view.first_fragment, view.fragment_count);
  };
  std::sort(
      tiles.begin() + static_cast<std::ptrdiff_t>(full_count), tiles.end(),
      [&](const RowTile& a, const RowTile& b) {
        const auto of_a = places(a), of_b = places(b);
        const auto order = std::lexicographical_compare_three_way(
            of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
            [](const RunFragment& x, const RunFragment& y) { return PlaceOf(x) <=> PlaceOf(y); });
        return order != 0 ? order < 0 : a.first_row < b.first_row;
      });
}

void AttentionPlan::MakeItem(std::size_t first_tile, std::size_t end_tile) {
  AttentionItem item = {.first_tile = static_cast<std::uint32_t>(first_tile),
                        .tile_count = static_cast<std::uint32_t>(end_tile - first_tile),
                        .first_span = tiles[first_tile].first_span,
                        .end_span = 0,
                        .is_whole = true};
  for (std::size_t t = first_tile; t < end_tile; ++t) {
    const RowTile& tile = tiles[t];
    item.first_span = std::min(item.first_span, tile.first_span);
    item.end_span = std::max(item.end_span, tile.end_span);
    item.cost += std::uint64_t{tile.end_span - tile.first_span} * (tile.row_count + kRowsPerRead);
  }
  groups_.push_back(item);
}

// Replaces an item by one item per span. The results of the spans are merged after all items.
void AttentionPlan::SplitItem(const AttentionItem& item) {
  for (std::uint32_t t = item.first_tile; t < item.first_tile + item.tile_count; ++t) {
    RowTile& tile = tiles[t];
    const std::uint32_t spans = tile.end_span - tile.first_span;
    tile.first_slot = static_cast<std::uint32_t>(slot_count_);
    for (std::uint32_t i = 0; i < tile.row_count; ++i) {
      split_rows.push_back({.row = tile.first_row + i,
                            .first_slot = tile.first_slot + i * spans,
                            .slot_count = spans});
    }
    slot_count_ += std::size_t{tile.row_count} * spans;
  }
  for (std::uint32_t span = item.first_span; span < item.end_span; ++span) {
    AttentionItem part = item;
    part.first_span = span;
    part.end_span = span + 1;
    part.is_whole = false;
    part.cost = item.cost / (item.end_span - item.first_span);
    items.push_back(part);
  }
}

// Returns whether threads end nearly at the same time without splitting items. Simulates giving
// each kv head of an item, in descending order of cost, to the thread with the least work. Returns
// false without a simulation if there are many units.
bool AttentionPlan::EndsTogether(const AttentionTiling& tiling, std::uint64_t cost) {
  if (tiling.thread_count == 1) return true;
  if (groups_.size() * tiling.kv_head_count > kItemsPerThread * tiling.thread_count) return false;
  std::sort(groups_.begin(), groups_.end(),
            [](const AttentionItem& a, const AttentionItem& b) { return a.cost > b.cost; });
  loads_.assign(tiling.thread_count, 0);
  for (const AttentionItem& group : groups_) {
    for (std::size_t head = 0; head < tiling.kv_head_count; ++head) {
      *std::min_element(loads_.begin(), loads_.end()) += group.cost;
    }
  }
  const std::uint64_t longest = *std::max_element(loads_.begin(), loads_.end());
  return longest * tiling.thread_count * kNearly <= cost * tiling.kv_head_count * (kNearly + 1);
}

void AttentionPlan::CutItems(const AttentionTiling& tiling) {
  groups_.clear();
  std::size_t rows = 0;
  std::size_t first = 0;
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    const SequenceView& view = sequences[tiles[t].sequence];
    const bool joins = t > first && rows + tiles[t].row_count <= tiling.tile_rows &&
                       view.fragment_count != 0 &&
                       PlaceOf(fragments[view.first_fragment]) ==
                           PlaceOf(fragments[sequences[tiles[t - 1].sequence].first_fragment]);
    if (t > first && !joins) {
      MakeItem(first, t);
      first = t;
      rows = 0;
    }
    rows += tiles[t].row_count;
  }
  if (first < tiles.size()) MakeItem(first, tiles.size());
  std::uint64_t cost = 0;
  for (const AttentionItem& group : groups_) cost += group.cost;
  const bool stays_whole = EndsTogether(tiling, cost);
  for (const AttentionItem& group : groups_) {
    std::size_t slots = 0;
    for (std::uint32_t t = group.first_tile; t < group.first_tile + group.tile_count; ++t) {
      slots += std::size_t{tiles[t].row_count} * (tiles[t].end_span - tiles[t].first_span);
    }
    const bool is_large =
        group.cost * kItemsPerThread * tiling.thread_count > cost * tiling.kv_head_count;
    const bool fits = (slot_count_ + slots) * tiling.slot_floats <= kPartialFloatsMax;
    if (!stays_whole && is_large && fits && group.end_span - group.first_span > 1) {
      SplitItem(group);
    } else {
      items.push_back(group);
    }
  }
  std::sort(items.begin(), items.end(), [](const AttentionItem& a, const AttentionItem& b) {
    return a.cost != b.cost ? a.cost > b.cost : a.first_tile > b.first_tile;
  });
  slot_floats = tiling.slot_floats;
  if (slot_count_ > slot_capacity_) {
    slot_capacity_ = std::max(slot_count_, 2 * slot_capacity_);
    partials = FloatBuffer(slot_capacity_ * slot_floats);
  }
}

void AttentionPlan::Build(const StepPlan& plan, Memory& memory, const ModelRopes& ropes,
                          std::size_t kind, const AttentionReach& reach,
                          const AttentionTiling& tiling) {
  sequences.clear();
  fragments.clear();
  run_starts.clear();
  first_seen.clear();
  deltas.clear();
  cosine.clear();
  sine.clear();
  tiles.clear();
  items.clear();
  split_rows.clear();
  slot_count_ = 0;
  std::size_t first_row = 0;
  for (std::size_t s = 0; s < plan.count; ++s) {
    const StepSequence& source = plan.sequences[s];
    AppendSequence(source, memory, ropes.table(kind, source.key_form), reach, first_row);
    first_row += source.new_cells;
  }
  CutTiles(tiling);
  CutItems(tiling);
}

}  // namespace kvd
