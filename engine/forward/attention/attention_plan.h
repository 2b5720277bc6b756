// AttentionPlan: what attention needs to know about a step's cells: the runs of each sequence, the
// cells that each row sees, the rotations of queries, and the division of the work. All layers of
// one reach (AttentionReach) use the same plan.
//
// The work is divided into items. An item is one or more row tiles (rows of one sequence each) over
// a range of spans. A run that the sequences of several tiles of an item share is read once for all
// these tiles. An item over all spans of its tiles writes its result to the output. An item over a
// single span writes to `partials`, which are merged after all items. The division into items
// determines which thread computes a result but never the result itself
// (engine/forward/attention/attention.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/forward/compute/compute.h"
#include "engine/memory/memory.h"
#include "engine/model/rope_table.h"

namespace kvd {

// Number of runs of cells in a span.
inline constexpr std::size_t kSpanRuns = 8;
inline constexpr std::size_t kSpanCells = kSpanRuns * kernels::kRunCells;

// A fragment of a run: cells of one extent that are adjacent in one block.
struct RunFragment {
  const std::byte* block = nullptr;  // the block's bytes
  std::uint16_t first = 0;           // first cell, by its index in the block
  std::uint16_t cell_count = 0;
  std::uint16_t column = 0;       // index of the fragment's first cell within the run
  std::uint32_t delta_index = 0;  // index among the sequence's deltas
};

// One sequence of the ubatch, as attention sees it.
struct SequenceView {
  std::size_t first_row = 0;  // the sequence has rows [first_row, first_row + row_count)
  std::size_t row_count = 0;
  std::size_t past_cells = 0;      // row i sees cells [first_seen, past_cells + i]
  std::size_t first_fragment = 0;  // index into AttentionPlan::fragments
  std::size_t fragment_count = 0;
  // Index into AttentionPlan::run_starts of the sequence's run number `skipped_runs`; the
  // sequence's later runs have the entries that follow.
  std::size_t first_run = 0;
  std::size_t skipped_runs = 0;  // number of leading runs that no row sees
  std::size_t run_count = 0;     // number of runs after the skipped runs
  std::size_t first_delta = 0;   // index into AttentionPlan::deltas
  std::size_t delta_count = 0;   // at least 1
  std::size_t first_angle = 0;   // index into AttentionPlan::cosine: [delta][row][pair]
};

// Consecutive rows of one sequence of the ubatch.
struct RowTile {
  std::uint32_t sequence = 0;
  std::uint32_t first_row = 0;  // index of the tile's first row in the ubatch
  std::uint32_t row_count = 0;
  std::uint32_t first_span = 0;  // spans that the rows see: [first_span, end_span)
  std::uint32_t end_span = 0;
  // Index into AttentionPlan::partials, [row][span]; used if the tile's spans are computed
  // separately.
  std::uint32_t first_slot = 0;
};

// Row tiles that are computed together, over all or some of their spans.
struct AttentionItem {
  std::uint32_t first_tile = 0;
  std::uint32_t tile_count = 0;
  std::uint32_t first_span = 0;
  std::uint32_t end_span = 0;
  bool is_whole = false;   // covers all spans of its tiles and writes the result to the output
  std::uint64_t cost = 0;  // work of the item, for comparison with other items
};

// A row whose spans are merged after all items.
struct SplitRow {
  std::uint32_t row = 0;  // index of the row in the ubatch
  std::uint32_t first_slot = 0;
  std::uint32_t slot_count = 0;
};

// What all layers that share an AttentionPlan have in common.
struct AttentionReach {
  std::uint32_t window = 0;  // number of positions that a query sees, its own included; 0: all
  std::uint32_t group = 0;   // the block group of the layers' cells
};

// Parameters of the division of work, common to all layers of one reach.
struct AttentionTiling {
  std::size_t tile_rows = 1;      // most rows of an item
  std::size_t kv_head_count = 1;  // kv heads of the layer that has the fewest
  std::size_t slot_floats = 0;    // floats of one row in one span, in the layer that needs the most
  std::size_t thread_count = 1;
};

// The plan is rebuilt for each step; its vectors keep their capacity.
struct AttentionPlan {
  std::vector<SequenceView> sequences;
  std::vector<RunFragment> fragments;
  // Per run: index of the run's first fragment, relative to the sequence's first_fragment; then an
  // end.
  std::vector<std::uint32_t> run_starts;
  // Per row of the ubatch: the first cell of the row's sequence that the row sees.
  std::vector<std::uint32_t> first_seen;
  std::vector<std::int32_t> deltas;
  std::vector<float> cosine;  // rotation of query rows per delta: [pair_count] each
  std::vector<float> sine;

  std::vector<RowTile> tiles;
  std::vector<AttentionItem> items;  // in descending order of cost
  std::vector<SplitRow> split_rows;
  std::size_t slot_floats = 0;
  FloatBuffer partials;  // [slots, slot_floats]

  // Builds the plan for the cells of `plan`'s sequences; rows have the order of `plan`. kind: the
  // kind of layers (ModelRopes).
  void Build(const StepPlan& plan, Memory& memory, const ModelRopes& ropes, std::size_t kind,
             const AttentionReach& reach, const AttentionTiling& tiling);

  // A row of the sequence sees cells [first_seen[row], SeenCells). `row` is the row's index in the
  // ubatch.
  static std::size_t SeenCells(const SequenceView& view, std::size_t row) {
    return view.past_cells + (row - view.first_row) + 1;
  }
  // The fragments of a run of the sequence; empty if no row of the sequence sees the run.
  std::span<const RunFragment> FragmentsOf(const SequenceView& view, std::size_t run) const {
    if (run < view.skipped_runs || run - view.skipped_runs >= view.run_count) return {};
    const std::uint32_t* starts = run_starts.data() + view.first_run + (run - view.skipped_runs);
    return std::span(fragments).subspan(view.first_fragment + starts[0], starts[1] - starts[0]);
  }

 private:
  void AppendSequence(const StepSequence& source, Memory& memory, const RopeTable& rope,
                      const AttentionReach& reach, std::size_t first_row);
  void CutTiles(const AttentionTiling& tiling);
  void CutItems(const AttentionTiling& tiling);
  void MakeItem(std::size_t first_tile, std::size_t end_tile);
  bool EndsTogether(const AttentionTiling& tiling, std::uint64_t cost);
  void SplitItem(const AttentionItem& item);

  std::size_t slot_count_ = 0;
  std::size_t slot_capacity_ = 0;
  std::vector<AttentionItem> groups_;
  std::vector<std::uint64_t> loads_;  // by thread
};

// Whether a and b are the same cells at the same indices of a run.
bool SameCells(std::span<const RunFragment> a, std::span<const RunFragment> b);

}  // namespace kvd
