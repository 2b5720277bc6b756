// Weights of a layer with multi-head latent attention. The sizes are those of
// LatentAttentionConfig.
#pragma once

#include "engine/model/weight_view.h"

namespace kvd {

struct LatentAttentionWeights {
  const float* norm = nullptr;  // [embedding_size]: norm of the layer's input
  // embedding_size -> query_rank, and a norm of the result, [query_rank]; empty if query_rank is 0.
  LinearView query_down;
  const float* query_norm = nullptr;
  // query_rank (or embedding_size) -> head_count * (plain_dim + shared_dim)
  LinearView query;
  // embedding_size -> rank + shared_dim: the latent row and the shared part of the keys.
  LinearView latent;
  const float* latent_norm = nullptr;  // [rank]
  // key_up and value_up are used if LatentAttentionConfig::caches_latent is set; each has one
  // matrix for each head, one after the other:
  WeightView key_up;    // plain_dim -> rank: maps a query to the space of latent rows
  WeightView value_up;  // rank -> value_dim
  // key_value_up is used if caches_latent is not set:
  LinearView key_value_up;  // rank -> head_count * (plain_dim + value_dim)
  LinearView out;           // head_count * value_dim -> embedding_size
};

}  // namespace kvd
