// One item of attention's plan (engine/layers/attention_plan.h) for one kv head: a unit of work.
#pragma once

#include <cstddef>
#include <limits>

#include "engine/layers/attention.h"

namespace kvd {

// Query rows of an item, unless a group has more heads: so many that unpacking a run's keys costs
// little beside them, and their queries and values stay in the second-level cache.
inline constexpr std::size_t kItemQueries = 128;

inline constexpr kernels::SoftmaxState kNothingSeen = {
    .max = -std::numeric_limits<float>::infinity(), .sum = 0.0f};

// A slot of partials holds for each head of the layer: maximum, sum, values [head_dim_v].
inline std::size_t HeadSlotFloats(const AttentionShape& shape) { return 2 + shape.head_dim_v; }

// Unit `unit` of the plan: item unit / kv_head_count, for the heads of kv head unit % kv_head_count.
// Ends in `out` if the item is whole, else in the plan's partials. q, out: as RunAttention has them.
// `workspace`: AttentionWorkspaceFloats(shape) floats, 64-byte aligned.
void RunAttentionUnit(const Compute& compute, const AttentionPlan& plan, const CellLayout& cells,
                      const AttentionShape& shape, std::size_t unit, float* workspace,
                      const float* q, float* out);

}  // namespace kvd
