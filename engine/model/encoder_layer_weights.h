// Weights of an encoder: its layers, its embeddings and its norms.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "engine/model/position_bias.h"
#include "engine/model/weight_view.h"

namespace kvd {

// Members that the architecture does not use stay empty.
struct EncoderLayerWeights {
  NormWeights attention_pre_norm{};     // of attention's input
  NormWeights feed_forward_pre_norm{};  // of the feed-forward's input
  PositionBias position_bias{};
  LinearView q{};                        // embedding_size -> head_count * head_dim
  LinearView k{};                        // embedding_size -> kv_head_count * head_dim
  LinearView v{};                        // embedding_size -> kv_head_count * head_dim
  const float* q_norm = nullptr;         // [head_dim]: RMS norm of each head of q
  const float* k_norm = nullptr;         // [head_dim]: RMS norm of each head of k
  LinearView out{};                      // head_count * head_dim -> embedding_size
  NormWeights attention_post_norm{};     // of attention's output, before it is added to the stream
  NormWeights attention_norm{};          // of the stream after attention was added
  LinearView gate{};                     // embedding_size -> feed_forward_size
  LinearView up{};                       // embedding_size -> feed_forward_size
  LinearView down{};                     // feed_forward_size -> embedding_size
  NormWeights feed_forward_post_norm{};  // of the feed-forward's output, before it is added
  NormWeights output_norm{};             // of the stream after the feed-forward was added
};

// The head of a reranker, which makes scores from one row (ClassifierConfig).
struct ClassifierWeights {
  LinearView dense{};   // embedding_size -> ClassifierConfig::dense_size
  NormWeights norm{};   // [dense_size]: layer norm of the activations
  LinearView output{};  // embedding_size or dense_size -> label_count
};

struct EncoderWeights {
  WeightView position_embedding;  // [context_length, embedding_size]
  WeightView type_embedding;      // [types, embedding_size]
  NormWeights embedding_norm;
  std::vector<EncoderLayerWeights> layers;
  NormWeights output_norm;  // [embedding_size]: norm after the last layer
  // Products that make the embedding from the pooled row, one after the other; or none.
  std::array<LinearView, 2> projections;
  ClassifierWeights classifier;
};

}  // namespace kvd
