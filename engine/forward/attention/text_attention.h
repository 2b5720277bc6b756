// Attention of a text's tokens to each other (Vaswani et al. 2017; Devlin et al. 2018). A token
// sees all tokens of the text, the tokens up to itself, or the tokens near it. Keys and values are
// f32 and are not cached.
//
// Keys and values are packed by head: [kv_head_count, key_count, head_dim]. Softmax and weighted
// values are summed online by runs of 32 keys, counted from the first key of the text. A row's
// result therefore depends on the row's text only.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/forward/compute/compute.h"

namespace kvd {

struct TextAttentionShape {
  std::size_t head_count = 0;
  std::size_t kv_head_count = 0;  // divides head_count
  std::size_t head_dim = 0;
  std::size_t key_count = 0;
  float scale = 1.0f;
  // The position in the text of the first query; the others follow it.
  std::size_t first_query = 0;
  // A query sees keys from `reach_before` positions before it to `reach_after` positions after it.
  std::size_t reach_before = kUnlimited;
  std::size_t reach_after = kUnlimited;
  // Per head: the score of a key at distance d is lowered by slope * d (Press et al. 2022). Empty:
  // by nothing.
  std::span<const float> slopes{};

  static constexpr std::size_t kUnlimited = static_cast<std::size_t>(-1);
};

// Slopes of the heads for a greatest bias (Press et al. 2022; ggml's soft_max_ext): with n the
// largest power of two in head_count, 2^(-bias_max (h + 1) / n) for h < n, then 2^(-bias_max / 2 *
// (2 (h - n) + 1) / n).
std::vector<float> DistanceSlopes(std::size_t head_count, float bias_max);

// The place of rows among packed rows.
struct PackedRows {
  std::size_t first_row = 0;
  std::size_t row_count = 0;  // number of all packed rows
};
// Copies rows [row_count, head_count * head_dim] into packed [head_count, where.row_count,
// head_dim], starting at row where.first_row of each head.
void PackHeads(const float* rows, std::size_t row_count, std::size_t head_count,
               std::size_t head_dim, const PackedRows& where, float* packed);

// Floats of workspace that the attention of a text needs per thread.
std::size_t TextAttentionWorkspaceFloats(std::size_t head_dim);

// q and out: [query_count, head_count * head_dim]; k and v: packed. REQUIRES: key_count > 0; the
// queries are at positions of the text, or have unlimited reach.
void RunTextAttention(const Compute& compute, const TextAttentionShape& shape,
                      std::size_t query_count, const float* q, const float* k, const float* v,
                      float* out);

}  // namespace kvd
