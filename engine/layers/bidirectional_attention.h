// Attention in which every query sees every key, over keys and values in f32 that no cache keeps
// (Vaswani et al. 2017; Devlin et al. 2018).
//
// Keys and values lie by head: [head_count, key_count, head_dim]. Softmax and weighted values are
// summed online by runs of 32 keys from the first, so a row's result depends on its text alone.
#pragma once

#include <cstddef>

#include "engine/compute.h"

namespace kvd {

struct BidirectionalShape {
  std::size_t head_count = 0;
  std::size_t head_dim = 0;
  std::size_t key_count = 0;
  float scale = 1.0f;
};

// Where rows go among packed ones.
struct PackedRows {
  std::size_t first_row = 0;
  std::size_t row_count = 0;  // of all packed rows
};
// Rows [row_count, head_count * head_dim] by head into packed [head_count, where.row_count,
// head_dim], from where.first_row on.
void PackHeads(const float* rows, std::size_t row_count, std::size_t head_count,
               std::size_t head_dim, const PackedRows& where, float* packed);

// Floats of workspace per thread.
std::size_t BidirectionalWorkspaceFloats(std::size_t head_dim);

// q: [query_count, head_count * head_dim]; out the same; k and v packed. REQUIRES: key_count > 0.
void RunBidirectionalAttention(const Compute& compute, const BidirectionalShape& shape,
                               std::size_t query_count, const float* q, const float* k,
                               const float* v, float* out);

}  // namespace kvd
