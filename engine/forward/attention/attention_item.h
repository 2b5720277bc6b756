// One item of the attention plan (engine/forward/attention/attention_plan.h) for one kv head: a
// unit of work.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <span>

#include "engine/forward/attention/attention.h"
#include "kernels/kernel_table.h"

namespace kvd {

// CellsAhead: prefetches the keys and values that are read next, part by part.
//
// A core can have about two dozen cache lines in flight and drops prefetches beyond that number.
// The keys and values of a run of cells are therefore prefetched in parts, between the kernels of
// the previous run.
class CellsAhead {
 public:
  void Clear() { next_ = count_ = byte_count_ = 0; }

  // Adds bytes to be read after the bytes that earlier calls of Put added. REQUIRES: at most 2 *
  // kRunCells calls of Put after a Clear.
  void Put(const std::byte* rows, std::size_t byte_count) {
    ranges_[count_++] = {rows, byte_count};
    byte_count_ += byte_count;
  }

  // Prefetches 1 / `parts` of the remaining bytes.
  void Ask(std::size_t parts) {
    std::size_t byte_count = byte_count_ / parts;
    byte_count_ -= byte_count;
    while (byte_count != 0) {
      std::span<const std::byte>& rows = ranges_[next_];
      const std::size_t take = std::min(byte_count, rows.size());
      for (std::size_t at = 0; at < take; at += kLineBytes) __builtin_prefetch(rows.data() + at);
      rows = rows.subspan(take);
      byte_count -= take;
      if (rows.empty()) ++next_;
    }
  }

 private:
  static constexpr std::size_t kLineBytes = 64;

  std::array<std::span<const std::byte>, 2 * kernels::kRunCells> ranges_;
  std::size_t next_ = 0, count_ = 0;
  std::size_t byte_count_ = 0;  // bytes of the ranges from next_ on
};

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
