// Grouped-query attention (Ainslie et al. 2023) of a ubatch over the cells of its sequences, block
// by block: what several sequences share is read once for all of them.
//
// A query sees the cells of its own sequence up to itself, or the last `window` positions of them.
// Windows go by effective positions, which ascend within a sequence, so what a row sees is one run
// of cells. Keys are never rewritten by a position shift: an extent's `delta` is taken off the
// query's position instead, so a query is rotated once per distinct delta of its sequence
// (docs/decisions/0002).
//
// The order of sums is a function of a row's own cells (docs/decisions/0015): runs of kRunCells
// cells counted from the sequence's first one are summed online, in order, within spans of
// kSpanRuns runs; the parts of the spans are merged in order. So a result depends neither on which
// blocks the cells lie in nor on what else is in the ubatch nor on how threads share the work.
#pragma once

#include <cstddef>

#include "engine/cell_layout.h"
#include "engine/compute.h"
#include "engine/layers/attention_plan.h"

namespace kvd {

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
  // It may go through bf16: the layer's own products are of rounded inputs too.
  bool may_round = false;
};

// How the layers of one reach are cut: starts as any layer, then includes one after the other.
AttentionTiling NoTiling(std::size_t thread_count);
void IncludeLayer(const AttentionShape& shape, AttentionTiling* tiling);
// Floats of workspace per thread.
std::size_t AttentionWorkspaceFloats(const AttentionShape& shape);

// q: [rows, head_count * head_dim_k], not rotated; out: [rows, head_count * head_dim_v].
// REQUIRES: K and V of the new cells of this layer are in the pool.
void RunAttention(const Compute& compute, const AttentionPlan& plan, const CellLayout& cells,
                  const AttentionShape& shape, const float* q, float* out);

}  // namespace kvd
