// Weights of a gated delta net. Its heads have keys and values of one size; K and V are all keys
// and all values of a token.
#pragma once

#include "engine/weight_view.h"

namespace kvd {

struct GatedDeltaNetWeights {
  const float* norm = nullptr;         // [embedding_size]: of the layer's input
  LinearView qkv;                      // embedding_size -> 2 * K + V
  LinearView gate;                     // embedding_size -> V
  LinearView alpha;                    // embedding_size -> value_heads
  LinearView beta;                     // embedding_size -> value_heads
  const float* taps = nullptr;         // [2 * K + V, convolution_width]
  const float* alpha_bias = nullptr;   // [value_heads]
  const float* decay_scale = nullptr;  // [value_heads], below 0
  const float* head_norm = nullptr;    // [head_size]
  LinearView out;                      // V -> embedding_size
};

}  // namespace kvd
