// Grouped-query attention (Ainslie et al. 2023) of a ubatch over the cells of its sequences, run by
// run. Cells that several sequences share are read once for all these sequences.
//
// A query sees the cells of its own sequence up to its own position, in layers with a window only
// the cells of the last `window` positions. Windows are measured in effective positions. Effective
// positions ascend within a sequence, so the cells that a row sees are one contiguous range. A
// position shift never rewrites keys. Instead of rewriting shifted keys, an extent's `delta` is
// subtracted from the query's position, so a query is rotated once per distinct delta of its
// sequence (docs/decisions/0002).
//
// The order of sums depends on a row's own cells only (docs/decisions/0015). Runs of kRunCells
// cells, counted from the sequence's first cell, are summed online and in order within spans of
// kSpanRuns runs. Then the results of the spans are merged in order. The result of a row therefore
// does not depend on the blocks that hold the cells, on the other rows of the ubatch or on the
// division of work among threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/forward/attention/attention_plan.h"
#include "engine/forward/compute/compute.h"
#include "engine/memory/geometry.h"
#include "engine/memory/memory.h"
#include "kernels/kernel_table.h"

namespace kvd {

struct AttentionShape {
  std::size_t layer = 0;
  std::size_t head_count = 0;
  std::size_t kv_head_count = 0;
  std::size_t head_dim_k = 0;
  std::size_t head_dim_v = 0;
  std::size_t rotated_dim = 0;    // elements of a query that rotate; 0: none
  std::size_t first_rotated = 0;  // index of the first element that rotates
  bool rope_interleaved = false;
  // score = softcap(scale * q.k)
  float scale = 1.0f;
  float softcap = 0.0f;  // 0: no cap
  // [head_count]: a score without a cell and value, which takes part in the softmax of each row of
  // the head (Xiao et al. 2023); or null.
  const float* sinks = nullptr;
  // Whether attention may compute in bf16; true if the layer's own products use rounded inputs too.
  bool may_round = false;
};

// NoTiling and IncludeLayer compute the tiling of all layers of one reach: start with NoTiling,
// then include each layer.
AttentionTiling NoTiling(std::size_t thread_count);
void IncludeLayer(const AttentionShape& shape, AttentionTiling* tiling);
// Floats of workspace that attention needs per thread.
std::size_t AttentionWorkspaceFloats(const AttentionShape& shape);

// q: [rows, head_count * head_dim_k], not rotated. out: [rows, head_count * head_dim_v]. REQUIRES:
// K and V of this layer's new cells are in the pool.
void RunAttention(const Compute& compute, const AttentionPlan& plan, const CellLayout& cells,
                  const AttentionShape& shape, const float* q, float* out);

// Encodes K and V rows of new cells into the cells that a step has reserved for them.
struct NewCells {
  const GroupPart* part = nullptr;  // of the step's sequence
  std::uint32_t group = 0;
  std::size_t first_cell = 0;  // index of the first new cell in the sequence
  std::size_t cell_count = 0;
};

// Encodes rows of `layer` (CellLayout). k[i] and v[i] are [kv heads, head_dim_k] and [kv heads,
// head_dim_v] of new cell i; keys are already rotated. v is not read if the layer's values are in
// its keys. Returns false if a key or value was not finite.
bool WriteCells(const kernels::KernelTable& kernels, const CellLayout& cells, Memory& memory,
                const NewCells& target, std::size_t layer, std::size_t head_dim_k,
                std::size_t head_dim_v, const float* const* k, const float* const* v);

}  // namespace kvd
