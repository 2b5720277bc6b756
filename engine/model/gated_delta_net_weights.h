// Weights of a gated delta net. Keys and values of a head have the same size. In the shapes K is
// the size of all keys of a token and V the size of all its values.
#pragma once

#include "engine/model/weight_view.h"

namespace kvd {

struct GatedDeltaNetWeights {
  const float* norm = nullptr;  // [embedding_size]: norm of the layer's input
  LinearView qkv;               // embedding_size -> 2 * K + V
  LinearView gate;              // embedding_size -> V
  LinearView alpha;             // embedding_size -> value_heads
  LinearView beta;              // embedding_size -> value_heads
  // qwen3next has the matrix `in` instead of qkv and gate, with the rows of each key head's query,
  // key, values of its value heads and their gates; and it has one matrix instead of alpha and
  // beta, with the rows of the betas of each key head's value heads and of their alphas.
  LinearView in;
  LinearView beta_alpha;
  const float* taps = nullptr;         // [2 * K + V, convolution_width]
  const float* alpha_bias = nullptr;   // [value_heads]
  const float* decay_scale = nullptr;  // [value_heads], negative
  const float* head_norm = nullptr;    // [head_size]
  LinearView out;                      // V -> embedding_size
};

}  // namespace kvd
