// Where the weights of a model lie: views into the mapping of its GgufFile, each of the shape its
// config needs.
//
// `ModelWeights` owns nothing of the weights; the GgufFile must outlive it. Immutable after
// binding, any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/gguf_file.h"
#include "engine/model_config.h"
#include "kernels/data_type.h"
#include "shm/error.h"

namespace kvd {

// A matrix [out_features, in_features], row after row, each row RowBytes(type, in_features) long.
// `data` is aligned to 8 at least for a whole tensor, to the row's bytes for a slice of a fused
// one.
struct WeightView {
  kernels::DataType type = kernels::DataType::kF32;
  std::size_t in_features = 0;
  std::size_t out_features = 0;
  const std::byte* data = nullptr;

  explicit operator bool() const { return data != nullptr; }
};

// A matrix with the optional vector and number that may come with it:
//   y = scale * (W x) + bias                    or, with scale_after_bias,
//   y = scale * (W x + bias).
struct LinearView {
  WeightView weight;
  const float* bias = nullptr;  // [out_features] or null
  float scale = 1.0f;           // NAME.scale of the file; finite
  bool scale_after_bias =
      false;  // the order in which llama.cpp applies them: feed-forward after, all others before
};

struct LayerWeights {
  const float* attn_norm = nullptr;  // [embedding_size]
  LinearView q;                      // embedding_size -> head_count * head_dim_k
  LinearView k;                      // embedding_size -> kv_head_count * head_dim_k
  LinearView v;                      // embedding_size -> kv_head_count * head_dim_v
  const float* q_norm = nullptr;     // [head_dim_k]; null without qk norm
  const float* k_norm = nullptr;     // [head_dim_k]
  LinearView attn_out;               // head_count * head_dim_v -> embedding_size
  const float* ffn_norm = nullptr;   // [embedding_size]
  LinearView gate;                   // embedding_size -> feed_forward_size
  LinearView up;                     // embedding_size -> feed_forward_size
  LinearView down;                   // feed_forward_size -> embedding_size
};

struct ModelWeights {
  WeightView token_embedding;  // [vocab_size, embedding_size]
  LinearView output;           // embedding_size -> vocab_size; the token embedding when tied
  const float* output_norm = nullptr;   // [embedding_size]
  const float* rope_factors = nullptr;  // [rotated_dim / 2], finite and not 0; null: all 1
  std::vector<LayerWeights> layers;
};

// kNotFound: a required tensor is missing; kCorrupt: a tensor has another shape than the config
// needs (both in the message), a value that must be finite is not, or the file has a tensor that
// the architecture does not know; kUnsupported: a norm or bias that is not f32. REQUIRES: `config`
// was read from `file`.
Result<ModelWeights> BindWeights(const GgufFile& file, const ModelConfig& config);

}  // namespace kvd
