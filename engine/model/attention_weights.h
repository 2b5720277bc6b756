// Weights of an attention layer.
#pragma once

#include "engine/model/weight_view.h"

namespace kvd {

struct AttentionWeights {
  NormWeights norm;  // [embedding_size]: norm of the layer's input; or none
  // embedding_size -> head_count * head_dim_k. With an output gate, each head has the rows of its
  // query followed by those of its gate. The head's output is multiplied by the logistic function
  // of the gate (Qiu et al. 2025).
  LinearView q;
  bool has_output_gate = false;
  LinearView k;  // embedding_size -> kv_head_count * head_dim_k; none: the layer has no own cells
  LinearView v;  // embedding_size -> kv_head_count * head_dim_v; none: values are the product of k
  // Norms of each head, [head_dim_k]; or, if norms_rows is set, of all heads together, [heads *
  // head_dim_k]; or, if has_norm_per_head is set, of each head with its own weights, [heads,
  // head_dim_k]. Null without qk norm.
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  bool norms_rows = false;
  bool has_norm_per_head = false;
  bool norms_rotated = false;        // q and k are normed after their rotation
  bool norms_values = false;         // values get a norm of each head, without weights
  const float* sinks = nullptr;      // [head_count]; or null
  LinearView out;                    // head_count * head_dim_v -> embedding_size
  const float* post_norm = nullptr;  // [embedding_size]: norm of the layer's output; or null
};

}  // namespace kvd
