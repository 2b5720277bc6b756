// Weights of Kimi Delta Attention. In the shapes, N is the number of elements of all heads of a
// token, head_count * head_size.
#pragma once

#include "engine/model/weight_view.h"

namespace kvd {

struct KimiDeltaAttentionWeights {
  const float* norm = nullptr;  // [embedding_size]: norm of the layer's input
  LinearView q;                 // embedding_size -> N
  LinearView k;
  LinearView v;
  const float* q_taps = nullptr;  // [N, convolution_width]
  const float* k_taps = nullptr;
  const float* v_taps = nullptr;
  LinearView beta;                     // embedding_size -> head_count
  LinearView decay_down;               // embedding_size -> head_size
  LinearView decay_up;                 // head_size -> N
  const float* decay_bias = nullptr;   // [N]
  const float* decay_scale = nullptr;  // [head_count], negative
  LinearView gate_down;                // embedding_size -> head_size
  LinearView gate_up;                  // head_size -> N
  const float* head_norm = nullptr;    // [head_size]
  LinearView out;                      // N -> embedding_size
};

}  // namespace kvd
