// Grouped-query attention (Ainslie et al. 2023) of a ubatch over the cells of its sequences, block
// by block.
//
// A query sees the cells of its own sequence up to itself, or the last `window` positions of them.
// Windows go by effective positions, which ascend within a sequence, so what a
// row sees is one run of cells. Softmax and weighted values are summed
// online by runs of kBlockCells cells counted from the sequence's first cell, merged in order: the
// result depends neither on which blocks the cells lie in nor on what else is in the ubatch. Keys
// are never rewritten by a position shift: an extent's `delta` is taken off the query's position
// instead, so a query is rotated once per distinct delta of its sequence (docs/decisions/0002).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cell_layout.h"
#include "engine/compute.h"
#include "engine/memory/memory.h"
#include "engine/model_ropes.h"

namespace kvd {

// A piece of a run: cells of one extent that lie side by side in one block.
struct RunPiece {
  const std::byte* block = nullptr;  // the block's bytes
  std::uint16_t first = 0;           // cell in the block
  std::uint16_t cell_count = 0;
  std::uint16_t column = 0;       // place of its first cell in the run
  std::uint32_t delta_index = 0;  // into SequenceView::deltas
};

// One sequence of the ubatch as attention sees it.
struct SequenceView {
  std::size_t first_row = 0;  // its rows in the ubatch: [first_row, first_row + row_count)
  std::size_t row_count = 0;
  std::size_t past_cells = 0;   // row i sees cells [first_seen, past_cells + i]
  std::size_t first_piece = 0;  // into AttentionPlan::pieces
  // Into AttentionPlan::run_starts: run `skipped_runs`, `skipped_runs` + 1, ... of the sequence.
  std::size_t first_run = 0;
  std::size_t skipped_runs = 0;  // out of sight of every row
  std::size_t run_count = 0;     // those left
  std::size_t first_delta = 0;   // into AttentionPlan::deltas
  std::size_t delta_count = 0;   // at least 1
  std::size_t first_angle = 0;   // into AttentionPlan::cosine: [delta][row][pair]
};

// What layers that share a plan have in common.
struct AttentionReach {
  std::uint32_t window = 0;  // positions that a query reaches back to, its own included; 0: all
  std::uint32_t group = 0;   // the block group that their cells lie in
};

// Everything about a step's cells that is the same in all layers of one reach; rebuilt per step,
// its vectors keep their room.
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
  struct Unit {
    std::uint32_t sequence;
    std::uint32_t first_row;  // of the ubatch
    std::uint32_t row_count;
  };
  std::vector<Unit> tiles;  // row tiles; a unit of work is one tile of one kv head

  // Cells and tiles of `plan`'s sequences, rows in plan order. tile_rows: query rows of one tile.
  // kind: of layers (ModelRopes).
  void Build(const StepPlan& plan, Memory& memory, const ModelRopes& ropes, std::size_t kind,
             const AttentionReach& reach, std::size_t tile_rows);
};

struct AttentionShape {
  std::size_t layer = 0;
  std::size_t head_count = 0;
  std::size_t kv_head_count = 0;
  std::size_t head_dim_k = 0;
  std::size_t head_dim_v = 0;
  std::size_t rotated_dim = 0;
  bool rope_interleaved = false;
  // A score is softcap(scale * q.k).
  float scale = 1.0f;
  float softcap = 0.0f;  // 0: none
};

// Query rows of a tile: as many as keep a tile's queries and values in the first-level cache.
std::size_t AttentionTileRows(std::size_t heads_per_kv_head);
// Floats of workspace per thread.
std::size_t AttentionWorkspaceFloats(const AttentionShape& shape);

// q: [rows, head_count * head_dim_k], not rotated; out: [rows, head_count * head_dim_v].
// REQUIRES: K and V of the new cells of this layer are in the pool.
void RunAttention(const Compute& compute, const AttentionPlan& plan, const CellLayout& cells,
                  const AttentionShape& shape, const float* q, float* out);

}  // namespace kvd
