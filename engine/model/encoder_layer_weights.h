// Weights of an encoder: its layers, its embeddings and its norms.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/model/position_bias.h"
#include "engine/model/weight_view.h"

namespace kvd {

// Members that the architecture does not use stay empty.
struct EncoderLayerWeights {
  const float* attention_pre_norm = nullptr;  // [embedding_size]: RMS norm of attention's input
  // [embedding_size]: RMS norm of the feed-forward's input
  const float* feed_forward_pre_norm = nullptr;
  PositionBias position_bias;
  LinearView q;                // embedding_size -> head_count * head_dim
  LinearView k;                // embedding_size -> head_count * head_dim
  LinearView v;                // embedding_size -> head_count * head_dim
  LinearView out;              // head_count * head_dim -> embedding_size
  NormWeights attention_norm;  // of the stream after attention was added
  LinearView gate;             // embedding_size -> feed_forward_size
  LinearView up;               // embedding_size -> feed_forward_size
  LinearView down;             // feed_forward_size -> embedding_size
  NormWeights output_norm;     // of the stream after the feed-forward was added
};

struct EncoderWeights {
  WeightView position_embedding;  // [context_length, embedding_size]
  WeightView type_embedding;      // [types, embedding_size]
  NormWeights embedding_norm;
  std::vector<EncoderLayerWeights> layers;
  const float* output_norm = nullptr;  // [embedding_size]: RMS norm after the last layer
};

}  // namespace kvd
