// Weights of an encoder: its layers and what stands before and behind them.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/layers/layer_norm.h"
#include "engine/layers/position_bias.h"
#include "engine/weight_view.h"

namespace kvd {

// What its architecture does not use stays empty.
struct EncoderLayerWeights {
  const float* attention_pre_norm = nullptr;  // [embedding_size]: RMS norm of what attention reads
  const float* feed_forward_pre_norm = nullptr;  // the same of the feed-forward
  PositionBias position_bias;
  LinearView q;                     // embedding_size -> head_count * head_dim
  LinearView k;                     // the same
  LinearView v;                     // the same
  LinearView out;                   // head_count * head_dim -> embedding_size
  LayerNormWeights attention_norm;  // of the sum that attention is added into
  LinearView gate;                  // embedding_size -> feed_forward_size
  LinearView up;                    // the same
  LinearView down;                  // feed_forward_size -> embedding_size
  LayerNormWeights output_norm;     // of the sum that the feed-forward is added into
};

struct EncoderWeights {
  WeightView position_embedding;  // [context_length, embedding_size]
  WeightView type_embedding;      // [types, embedding_size]
  LayerNormWeights embedding_norm;
  std::vector<EncoderLayerWeights> layers;
  const float* output_norm = nullptr;  // [embedding_size]: RMS norm behind the last layer
};

}  // namespace kvd
