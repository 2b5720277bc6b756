// Weights of attention layers, feed-forwards and experts, of the inputs of layers, and of encoders.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "engine/model/position_bias.h"
#include "engine/model/weight_view.h"

namespace kvd {

// Weights of a feed-forward layer.
struct FeedForwardWeights {
  NormWeights norm;                  // [embedding_size]: norm of the layer's input; or none
  LinearView gate;                   // embedding_size -> feed_forward_size; empty without a gate
  LinearView up;                     // embedding_size -> feed_forward_size
  LinearView down;                   // feed_forward_size -> embedding_size
  const float* post_norm = nullptr;  // [embedding_size]: norm of the layer's output; or null
};

// Weights of an attention layer.
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

// Weights of a layer with multi-head latent attention. The sizes are those of
// LatentAttentionConfig.
struct LatentAttentionWeights {
  const float* norm = nullptr;  // [embedding_size]: norm of the layer's input
  // embedding_size -> query_rank, and a norm of the result, [query_rank]; empty if query_rank is 0.
  LinearView query_down;
  const float* query_norm = nullptr;
  // query_rank (or embedding_size) -> head_count * (plain_dim + shared_dim)
  LinearView query;
  // embedding_size -> rank + shared_dim: the latent row and the shared part of the keys.
  LinearView latent;
  const float* latent_norm = nullptr;  // [rank]
  // key_up and value_up are used if LatentAttentionConfig::caches_latent is set; each has one
  // matrix for each head, one after the other:
  WeightView key_up;    // plain_dim -> rank: maps a query to the space of latent rows
  WeightView value_up;  // rank -> value_dim
  // key_value_up is used if caches_latent is not set:
  LinearView key_value_up;  // rank -> head_count * (plain_dim + value_dim)
  LinearView out;           // head_count * value_dim -> embedding_size
};

// Weights of a mixture of experts.

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

// Weights of the inputs that each token has for each layer (Gemma Team 2025, Gemma 3n). The inputs
// are computed from a row of a table, by token, and from the token's embedding. `size` is
// ModelConfig::layer_input_size.
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

// Weights of the parallel streams of gemma3n (Baykal et al. 2023, alternating updates; Gemma Team
// 2025). Every token has kStreamCount rows; a layer computes with the first one and predicts the
// others.
inline constexpr std::size_t kStreamCount = 4;

struct AltupLayerWeights {
  const float* router_norm = nullptr;  // [embedding_size]
  LinearView router;                   // embedding_size -> kStreamCount
  LinearView predict;                  // kStreamCount -> kStreamCount * kStreamCount
  LinearView correct;                  // kStreamCount -> kStreamCount
  const float* scale = nullptr;        // [embedding_size]: of the first stream, for layer inputs
  // A low-rank product beside attention (Menghani et al. 2025, learned augmented residuals).
  LinearView laurel_down;              // embedding_size -> kLaurelRank
  LinearView laurel_up;                // kLaurelRank -> embedding_size
  const float* laurel_norm = nullptr;  // [embedding_size]
};
inline constexpr std::size_t kLaurelRank = 64;

// embedding_size -> embedding_size, for each stream but the first.
struct AltupWeights {
  std::array<LinearView, kStreamCount - 1> spread;   // from the embedding to the stream
  std::array<LinearView, kStreamCount - 1> collect;  // from the stream to the output
};

// Weights of an encoder: its layers, its embeddings and its norms.

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
