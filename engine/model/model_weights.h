// ModelWeights: views of all weights of a model in the mapping of its GgufFile. Each view has the
// shape that the config requires.
//
// `ModelWeights` does not own the weights; the GgufFile must outlive it. The weights are immutable
// after BindWeights; any thread may read them.
#pragma once

#include <cstddef>
#include <vector>

#include "base/error.h"
#include "engine/model/gguf_file.h"
#include "engine/model/layer_weights.h"
#include "engine/model/model_config.h"
#include "engine/model/position_bias.h"
#include "engine/model/recurrent_weights.h"
#include "engine/model/weight_view.h"

namespace kvd {

// Weights of one layer. Members that the architecture does not use stay empty.
struct LayerWeights {
  AttentionWeights attention;
  LatentAttentionWeights latent_attention;
  PositionBias position_bias;        // added to the scores of attention
  AttentionWeights cross_attention;  // to an encoded text; runs after attention
  FeedForwardWeights feed_forward;
  ExpertWeights experts;
  ParallelExpertNorms parallel_experts;  // of layers that add experts to the feed-forward
  LayerInputWeights layer_input;         // after the feed-forward
  AltupLayerWeights altup;
  float output_scale = 1.0f;  // the stream is multiplied by it after the layer
  ShortConvolutionWeights short_convolution;
  Rwkv6TimeMix rwkv6;
  Rwkv7TimeMix rwkv7;
  RwkvChannelMix channel_mix;
  GatedDeltaNetWeights delta_net;
  KimiDeltaAttentionWeights kimi_delta_attention;
  MambaWeights mamba;
};

struct ModelWeights {
  WeightView token_embedding;          // [vocab_size, embedding_size]
  WeightView position_embedding;       // [position_count, embedding_size]; or none
  LinearView output;                   // embedding_size -> vocab_size; the token embedding if tied
  const float* output_norm = nullptr;  // [embedding_size]
  const float* output_norm_bias = nullptr;  // [embedding_size]; or null
  NormWeights embedding_norm;           // [embedding_size]: norm of the token embeddings; or none
  const float* rope_factors = nullptr;  // [rotated_dim / 2], finite and not 0; null: all 1
  const float* long_rope_factors = nullptr;  // factors of sequences from long_rope_from on
  LayerInputTable layer_inputs;
  AltupWeights altup;
  std::vector<LayerWeights> layers;
  EncoderWeights encoder;
  std::size_t in_features_max = 0;  // of all matrices
};

// Finds all tensors of the architecture in the file. Errors: kNotFound (a required tensor is
// missing); kCorrupt (the shape of a tensor differs from what the config requires, a value that
// must be finite is not, or the file has a tensor that the architecture does not have);
// kUnsupported (a norm or bias is not f32). Messages name the tensor. REQUIRES: `config` was read
// from `file`.
Result<ModelWeights> BindWeights(const GgufFile& file, const ModelConfig& config);

}  // namespace kvd
