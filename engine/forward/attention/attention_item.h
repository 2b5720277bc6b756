// One item of the attention plan (engine/forward/attention/attention_plan.h) for one kv head: a
// unit of work.
#pragma once

#include <cstddef>
#include <limits>

#include "engine/forward/attention/attention.h"

namespace kvd {

// Most query rows of an item, unless the query heads that share a kv head are more. With
// kItemQueries rows, the unpacking of a run's keys costs little compared with the products, and the
// queries and values stay in the second-level cache.
inline constexpr std::size_t kItemQueries = 128;

inline constexpr kernels::SoftmaxState kNothingSeen = {
    .max = -std::numeric_limits<float>::infinity(), .sum = 0.0f};

// A slot of partials has, for each head of the layer: maximum, sum, values [head_dim_v].
inline std::size_t HeadSlotFloats(const AttentionShape& shape) { return 2 + shape.head_dim_v; }

// The factor of a row's weighted values after its last cell: 1 / sum, or with a sink the inverse of
// the sum that includes it.
float FinalFactor(const AttentionShape& shape, std::size_t head,
                  const kernels::SoftmaxState& state);

// Computes unit `unit` of the plan: item unit / kv_head_count for the heads of kv head unit %
// kv_head_count. The result goes to `out` if the item is whole, and to the plan's partials
// otherwise. q and out: as in RunAttention. `workspace`: AttentionWorkspaceFloats(shape) floats,
// 64-byte aligned.
void RunAttentionUnit(const Compute& compute, const AttentionPlan& plan, const CellLayout& cells,
                      const AttentionShape& shape, std::size_t unit, float* workspace,
                      const float* q, float* out);

}  // namespace kvd
