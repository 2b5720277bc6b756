// Weights of an attention layer.
#pragma once

#include "engine/weight_view.h"

namespace kvd {

struct AttentionWeights {
  const float* norm = nullptr;  // [embedding_size]: of the layer's input
  // embedding_size -> head_count * head_dim_k; with an output gate, of each head the query and then
  // the gate, which multiplies what the head attended to by its logistic function (Qiu et al. 2025)
  LinearView q;
  bool has_output_gate = false;
  LinearView k;                      // embedding_size -> kv_head_count * head_dim_k
  LinearView v;                      // embedding_size -> kv_head_count * head_dim_v
  const float* q_norm = nullptr;     // [head_dim_k]; null without qk norm
  const float* k_norm = nullptr;     // [head_dim_k]
  LinearView out;                    // head_count * head_dim_v -> embedding_size
  const float* post_norm = nullptr;  // [embedding_size] of what goes into the stream; or null
};

}  // namespace kvd
