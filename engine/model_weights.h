// Where the weights of a model lie: views into the mapping of its GgufFile, each of the shape its
// config needs.
//
// `ModelWeights` owns nothing of the weights; the GgufFile must outlive it. Immutable after
// binding, any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/gguf_file.h"
#include "engine/layers/attention_weights.h"
#include "engine/layers/encoder_layer_weights.h"
#include "engine/layers/feed_forward_weights.h"
#include "engine/layers/gated_delta_net_weights.h"
#include "engine/layers/mamba_weights.h"
#include "engine/layers/position_bias.h"
#include "engine/layers/rwkv_weights.h"
#include "engine/layers/short_convolution_weights.h"
#include "engine/model_config.h"
#include "engine/weight_view.h"
#include "shm/error.h"

namespace kvd {

// What a layer has; what its architecture does not use stays empty.
struct LayerWeights {
  AttentionWeights attention;
  PositionBias position_bias;        // of attention
  AttentionWeights cross_attention;  // to an encoded text, behind attention
  FeedForwardWeights feed_forward;
  ShortConvolutionWeights short_convolution;
  Rwkv6TimeMix rwkv6;
  Rwkv7TimeMix rwkv7;
  RwkvChannelMix channel_mix;
  GatedDeltaNetWeights delta_net;
  MambaWeights mamba;
};

struct ModelWeights {
  WeightView token_embedding;  // [vocab_size, embedding_size]
  LinearView output;           // embedding_size -> vocab_size; the token embedding when tied
  const float* output_norm = nullptr;        // [embedding_size]
  const float* output_norm_bias = nullptr;   // [embedding_size]; null where that is an RMS norm
  LayerNormWeights embedding_norm;           // [embedding_size] of the token embeddings; or none
  const float* rope_factors = nullptr;       // [rotated_dim / 2], finite and not 0; null: all 1
  const float* long_rope_factors = nullptr;  // the same beyond ModelConfig::long_rope_from
  std::vector<LayerWeights> layers;
  EncoderWeights encoder;
  std::size_t in_features_max = 0;  // of all matrices
};

// kNotFound: a required tensor is missing; kCorrupt: a tensor has another shape than the config
// needs (both in the message), a value that must be finite is not, or the file has a tensor that
// the architecture does not know; kUnsupported: a norm or bias that is not f32. REQUIRES: `config`
// was read from `file`.
Result<ModelWeights> BindWeights(const GgufFile& file, const ModelConfig& config);

}  // namespace kvd
