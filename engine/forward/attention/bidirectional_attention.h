// Attention in which every query sees every key (Vaswani et al. 2017; Devlin et al. 2018). Keys and
// values are f32 and are not cached.
//
// Keys and values are packed by head: [head_count, key_count, head_dim]. Softmax and weighted
// values are summed online by runs of 32 keys, counted from the first key of the text. A row's
// result therefore depends on the row's text only.
#pragma once

#include <cstddef>

#include "engine/forward/compute/compute.h"

namespace kvd {

struct BidirectionalShape {
  std::size_t head_count = 0;
  std::size_t head_dim = 0;
  std::size_t key_count = 0;
  float scale = 1.0f;
};

// The place of rows among packed rows.
struct PackedRows {
  std::size_t first_row = 0;
  std::size_t row_count = 0;  // number of all packed rows
};
// Copies rows [row_count, head_count * head_dim] into packed [head_count, where.row_count,
// head_dim], starting at row where.first_row of each head.
void PackHeads(const float* rows, std::size_t row_count, std::size_t head_count,
               std::size_t head_dim, const PackedRows& where, float* packed);

// Floats of workspace that bidirectional attention needs per thread.
std::size_t BidirectionalWorkspaceFloats(std::size_t head_dim);

// q and out: [query_count, head_count * head_dim]; k and v: packed. REQUIRES: key_count > 0.
void RunBidirectionalAttention(const Compute& compute, const BidirectionalShape& shape,
                               std::size_t query_count, const float* q, const float* k,
                               const float* v, float* out);

}  // namespace kvd
