// Tensors that many architectures share, visited with what differs as options. Names and shapes are
// those of llama.cpp (src/llama-arch.cpp; load_arch_tensors in src/models/*.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/model_tensors.h"

namespace kvd {

enum class BiasRule : std::uint8_t { kNone, kOptional };
enum class ScaleRule : std::uint8_t { kBeforeBias, kAfterBias, kIgnored };

// NAME.weight, NAME.bias and NAME.scale as the rules say; NAME.input_scale is ignored.
Status VisitLinear(TensorVisitor& visitor, const std::string& name, std::uint64_t in_features,
                   std::uint64_t out_features, BiasRule bias, ScaleRule scale, LinearView& target);
// NAME.weight, a required f32 vector.
Status VisitNorm(TensorVisitor& visitor, const std::string& name, std::uint64_t element_count,
                 const float*& target);

// NAME.weight and NAME.bias.
Status VisitLayerNorm(TensorVisitor& visitor, const std::string& name, std::uint64_t element_count,
                      LayerNormWeights& target);

// "blk.LAYER."
std::string BlockPrefix(std::size_t layer);

struct AttentionTensors {
  bool has_qk_norm = false;
  bool has_post_norm = false;
  BiasRule output_bias = BiasRule::kNone;
};
// attn_norm, attn_q, attn_k, attn_v (or attn_qkv), attn_output, post_attention_norm.
Status VisitAttention(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                      const AttentionTensors& options, AttentionWeights& weights);

struct FeedForwardTensors {
  BiasRule bias = BiasRule::kNone;
  ScaleRule scale = ScaleRule::kIgnored;
  bool has_post_norm = false;
  const char* norm = "ffn_norm";  // of the layer's input
  const char* norm_suffix = ".weight";
};
// ffn_norm, ffn_gate, ffn_up, ffn_down, post_ffw_norm.
Status VisitFeedForward(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                        const FeedForwardTensors& options, FeedForwardWeights& weights);

// token_embd
Status VisitEmbedding(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights);
// output, or the tied token embedding.
Status VisitOutputMatrix(const ModelConfig& config, TensorVisitor& visitor, BiasRule bias,
                         ModelWeights& weights);
// output_norm, and that.
Status VisitOutput(const ModelConfig& config, TensorVisitor& visitor, BiasRule bias,
                   ModelWeights& weights);

}  // namespace kvd
