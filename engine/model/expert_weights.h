// Weights of a mixture of experts.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/model/feed_forward_weights.h"
#include "engine/model/weight_view.h"

namespace kvd {

// One matrix of each expert, all of the same shape and type. y = scale * (W x) + bias.
struct ExpertMatrices {
  WeightView shape;                    // `data` is null
  std::vector<const std::byte*> data;  // of each expert
  const float* bias = nullptr;         // [experts, bias_stride] or null
  std::size_t bias_stride = 0;         // at least out_features
  const float* scales = nullptr;       // [experts] or null: all 1

  LinearView At(std::size_t expert) const {
    LinearView view{.weight = shape};
    view.weight.data = data[expert];
    if (bias != nullptr) view.bias = bias + expert * bias_stride;
    if (scales != nullptr) view.scale = scales[expert];
    return view;
  }
};

struct ExpertWeights {
  LinearView router;  // embedding_size -> count
  // [count] numbers that are added to the experts' probabilities when experts are chosen, but not
  // to the weights of the chosen experts; or null.
  const float* selection_bias = nullptr;
  ExpertMatrices gate;  // input_size -> size; empty without a gate
  ExpertMatrices up;    // input_size -> size
  ExpertMatrices down;  // size -> input_size
  // Matrices embedding_size -> input_size and input_size -> embedding_size, if the experts read
  // latent rows; else empty.
  LinearView latent_down;
  LinearView latent_up;
  FeedForwardWeights shared;           // empty without a shared expert
  const float* shared_gate = nullptr;  // [embedding_size]: logit of the shared expert; or null
};

// Norms of a layer that adds a feed-forward and experts, each with norms of its own (gemma4). Each
// has embedding_size elements.
struct ParallelExpertNorms {
  const float* router_norm = nullptr;        // of the router's input, which is divided by sqrt(n)
  const float* norm = nullptr;               // of the experts' input
  const float* post_norm = nullptr;          // of the experts' sum
  const float* feed_forward_norm = nullptr;  // of the feed-forward's output
};

}  // namespace kvd
