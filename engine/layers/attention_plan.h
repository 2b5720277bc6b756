// What attention needs to know of a step's cells, the same in all layers of one reach: the runs of
// each sequence, what each row sees of them, the rotations of its queries, and how the work is cut.
//
// The work is cut into items. An item is a few row tiles (rows of one sequence each) over a range
// of spans; the tiles of an item see the same blocks as far as sequences share them, so that each
// run of the item is read once for all of them. An item over all spans of its tiles ends in the
// output; one over a single span leaves its part in `partials`, to be merged when all are done. How
// the work is cut decides who computes, never what (engine/layers/attention.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/compute.h"
#include "engine/memory/memory.h"
#include "engine/model_ropes.h"

namespace kvd {

// Runs of one span.
inline constexpr std::size_t kSpanRuns = 8;
inline constexpr std::size_t kSpanCells = kSpanRuns * kernels::kRunCells;

// A piece of a run: cells of one extent that lie side by side in one block.
struct RunPiece {
  const std::byte* block = nullptr;  // the block's bytes
  std::uint16_t first = 0;           // cell in the block
  std::uint16_t cell_count = 0;
  std::uint16_t column = 0;       // place of its first cell in the run
  std::uint32_t delta_index = 0;  // into the sequence's deltas
};

// One sequence of the ubatch as attention sees it.
struct SequenceView {
  std::size_t first_row = 0;  // its rows in the ubatch: [first_row, first_row + row_count)
  std::size_t row_count = 0;
  std::size_t past_cells = 0;   // row i sees cells [first_seen, past_cells + i]
  std::size_t first_piece = 0;  // into AttentionPlan::pieces
  std::size_t piece_count = 0;
  // Into AttentionPlan::run_starts: run `skipped_runs`, `skipped_runs` + 1, ... of the sequence.
  std::size_t first_run = 0;
  std::size_t skipped_runs = 0;  // out of sight of every row
  std::size_t run_count = 0;     // those left
  std::size_t first_delta = 0;   // into AttentionPlan::deltas
  std::size_t delta_count = 0;   // at least 1
  std::size_t first_angle = 0;   // into AttentionPlan::cosine: [delta][row][pair]
};

// Rows of one sequence.
struct RowTile {
  std::uint32_t sequence = 0;
  std::uint32_t first_row = 0;  // of the ubatch
  std::uint32_t row_count = 0;
  std::uint32_t first_span = 0;  // those that a row of it sees: [first_span, end_span)
  std::uint32_t end_span = 0;
  std::uint32_t first_slot = 0;  // of partials, [row][span]; if its spans are computed apart
};

// Tiles that are computed together, over some of their spans.
struct AttentionItem {
  std::uint32_t first_tile = 0;
  std::uint32_t tile_count = 0;
  std::uint32_t first_span = 0;
  std::uint32_t end_span = 0;
  bool is_whole = false;   // all spans of its tiles: it ends in the output
  std::uint64_t cost = 0;  // for comparison with other items
};

// A row whose spans are merged in the end.
struct SplitRow {
  std::uint32_t row = 0;  // of the ubatch
  std::uint32_t first_slot = 0;
  std::uint32_t slot_count = 0;
};

// What layers that share a plan have in common.
struct AttentionReach {
  std::uint32_t window = 0;  // positions that a query reaches back to, its own included; 0: all
  std::uint32_t group = 0;   // the block group that their cells lie in
};

// How work is cut: for the layers of one reach together.
struct AttentionTiling {
  std::size_t tile_rows = 1;      // of an item, at most
  std::size_t kv_head_count = 1;  // of the layer with the fewest
  std::size_t slot_floats = 0;    // of one row in one span, in the largest layer
  std::size_t thread_count = 1;
};

// Rebuilt per step; its vectors keep their room.
struct AttentionPlan {
  std::vector<SequenceView> sequences;
  std::vector<RunPiece> pieces;
  std::vector<std::uint32_t>
      run_starts;  // per run: index of its first piece, relative to the sequence's first_piece; and
                   // an end
  // Per row of the ubatch: the sequence's first cell that it sees.
  std::vector<std::uint32_t> first_seen;
  std::vector<std::int32_t> deltas;
  std::vector<float> cosine;  // rotation of query rows per delta: [pair_count] each
  std::vector<float> sine;

  std::vector<RowTile> tiles;
  std::vector<AttentionItem> items;  // the costliest first
  std::vector<SplitRow> split_rows;
  std::size_t slot_floats = 0;
  FloatBuffer partials;  // [slots, slot_floats]

  // Cells and items of `plan`'s sequences, rows in plan order. kind: of layers (ModelRopes).
  void Build(const StepPlan& plan, Memory& memory, const ModelRopes& ropes, std::size_t kind,
             const AttentionReach& reach, const AttentionTiling& tiling);

  // The row of the ubatch, which is the sequence's, sees cells [first_seen[row], SeenCells).
  static std::size_t SeenCells(const SequenceView& view, std::size_t row) {
    return view.past_cells + (row - view.first_row) + 1;
  }
  // Empty where no row of the sequence sees the run.
  std::span<const RunPiece> PiecesOf(const SequenceView& view, std::size_t run) const {
    if (run < view.skipped_runs || run - view.skipped_runs >= view.run_count) return {};
    const std::uint32_t* starts = run_starts.data() + view.first_run + (run - view.skipped_runs);
    return std::span(pieces).subspan(view.first_piece + starts[0], starts[1] - starts[0]);
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

// The same cells in the same places of a run.
bool SameCells(std::span<const RunPiece> a, std::span<const RunPiece> b);

}  // namespace kvd
