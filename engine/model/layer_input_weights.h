// Weights of the inputs that each token has for each layer (Gemma Team 2025, Gemma 3n). The inputs
// are computed from a row of a table, by token, and from the token's embedding. `size` is
// ModelConfig::layer_input_size.
#pragma once

#include "engine/model/weight_view.h"

namespace kvd {

struct LayerInputTable {
  WeightView embedding;         // [vocab_size, layer_count * size]
  LinearView projection;        // embedding_size -> layer_count * size
  const float* norm = nullptr;  // [size]: norm of each layer's part of the projection
};

// How a layer adds its input to the stream.
struct LayerInputWeights {
  LinearView gate;                   // embedding_size -> size
  LinearView out;                    // size -> embedding_size
  const float* post_norm = nullptr;  // [embedding_size]
};

}  // namespace kvd
