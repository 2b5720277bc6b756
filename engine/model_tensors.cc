// Names and shapes are those of llama.cpp (src/llama-arch.cpp; load_arch_tensors in
// src/models/*.cpp).
#include "engine/model_tensors.h"

#include <array>

namespace kvd {
namespace {

enum class Bias : std::uint8_t { kNone, kOptional };
enum class ScaleOrder : std::uint8_t { kBeforeBias, kAfterBias, kIgnored };

Status VisitLinear(TensorVisitor& visitor, const std::string& name, std::uint64_t in_features,
                   std::uint64_t out_features, Bias bias, ScaleOrder scale, LinearView& target) {
  KVD_CHECK_OK(visitor.Matrix(name + ".weight", in_features, out_features, Presence::kRequired,
                              target.weight));
  if (bias == Bias::kOptional) {
    KVD_CHECK_OK(visitor.Vector(name + ".bias", out_features, VectorRole::kBias,
                                Presence::kOptional, target.bias));
  }
  target.scale_after_bias = scale == ScaleOrder::kAfterBias;
  // The scale of activations quantised beforehand; it has no part in a product with float
  // activations.
  KVD_CHECK_OK(visitor.Ignore(name + ".input_scale"));
  if (scale == ScaleOrder::kIgnored) return visitor.Ignore(name + ".scale");
  return visitor.Scale(name + ".scale", target.scale);
}

Status VisitNorm(TensorVisitor& visitor, const std::string& name, std::uint64_t element_count,
                 const float*& target) {
  return visitor.Vector(name + ".weight", element_count, VectorRole::kNorm, Presence::kRequired,
                        target);
}

Status VisitQkv(const ModelConfig& config, TensorVisitor& visitor, const std::string& block,
                std::size_t layer, LayerWeights& weights) {
  std::uint64_t embedding = config.embedding_size;
  std::uint64_t q_size = std::uint64_t{config.head_count[layer]} * config.head_dim_k;
  std::uint64_t k_size = std::uint64_t{config.kv_head_count[layer]} * config.head_dim_k;
  std::uint64_t v_size = std::uint64_t{config.kv_head_count[layer]} * config.head_dim_v;
  std::array<FusedPart, 3> parts = {
      {{q_size, &weights.q}, {k_size, &weights.k}, {v_size, &weights.v}}};
  KVD_TRY(bool fused, visitor.Fused(block + "attn_qkv", embedding, parts));
  if (fused) return {};
  KVD_CHECK_OK(VisitLinear(visitor, block + "attn_q", embedding, q_size, Bias::kOptional,
                           ScaleOrder::kBeforeBias, weights.q));
  KVD_CHECK_OK(VisitLinear(visitor, block + "attn_k", embedding, k_size, Bias::kOptional,
                           ScaleOrder::kBeforeBias, weights.k));
  return VisitLinear(visitor, block + "attn_v", embedding, v_size, Bias::kOptional,
                     ScaleOrder::kBeforeBias, weights.v);
}

Status VisitAttention(const ModelConfig& config, TensorVisitor& visitor, const std::string& block,
                      std::size_t layer, LayerWeights& weights) {
  const ArchitectureTraits& traits = config.traits();
  KVD_CHECK_OK(VisitNorm(visitor, block + "attn_norm", config.embedding_size, weights.attn_norm));
  KVD_CHECK_OK(VisitQkv(config, visitor, block, layer, weights));
  if (traits.has_qk_norm) {
    KVD_CHECK_OK(VisitNorm(visitor, block + "attn_q_norm", config.head_dim_k, weights.q_norm));
    KVD_CHECK_OK(VisitNorm(visitor, block + "attn_k_norm", config.head_dim_k, weights.k_norm));
  }
  return VisitLinear(
      visitor, block + "attn_output", std::uint64_t{config.head_count[layer]} * config.head_dim_v,
      config.embedding_size, traits.has_attention_output_bias ? Bias::kOptional : Bias::kNone,
      ScaleOrder::kBeforeBias, weights.attn_out);
}

Status VisitFeedForward(const ModelConfig& config, TensorVisitor& visitor, const std::string& block,
                        std::size_t layer, LayerWeights& weights) {
  const ArchitectureTraits& traits = config.traits();
  Bias bias = traits.has_feed_forward_bias ? Bias::kOptional : Bias::kNone;
  ScaleOrder scale = traits.has_feed_forward_scale ? ScaleOrder::kAfterBias : ScaleOrder::kIgnored;
  std::uint64_t embedding = config.embedding_size;
  std::uint64_t hidden = config.feed_forward_size[layer];
  KVD_CHECK_OK(VisitNorm(visitor, block + "ffn_norm", embedding, weights.ffn_norm));
  KVD_CHECK_OK(
      VisitLinear(visitor, block + "ffn_gate", embedding, hidden, bias, scale, weights.gate));
  KVD_CHECK_OK(VisitLinear(visitor, block + "ffn_up", embedding, hidden, bias, scale, weights.up));
  return VisitLinear(visitor, block + "ffn_down", hidden, embedding, bias, scale, weights.down);
}

Status VisitOutput(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  KVD_CHECK_OK(VisitNorm(visitor, "output_norm", config.embedding_size, weights.output_norm));
  Bias bias = config.traits().has_output_bias ? Bias::kOptional : Bias::kNone;
  if (!config.tied_embeddings) {
    return VisitLinear(visitor, "output", config.embedding_size, config.vocab_size, bias,
                       ScaleOrder::kBeforeBias, weights.output);
  }
  weights.output.weight = weights.token_embedding;
  if (bias == Bias::kNone) return {};
  return visitor.Vector("output.bias", config.vocab_size, VectorRole::kBias, Presence::kOptional,
                        weights.output.bias);
}

// llama and its siblings qwen2 and qwen3: attention, then a gated feed-forward, in every layer.
Status DescribeLlama(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  KVD_CHECK_OK(visitor.Matrix("token_embd.weight", config.embedding_size, config.vocab_size,
                              Presence::kRequired, weights.token_embedding));
  if (config.traits().has_rope_factors) {
    KVD_CHECK_OK(visitor.Vector("rope_freqs.weight", config.rope.rotated_dim / 2,
                                VectorRole::kRopeFactors, Presence::kOptional,
                                weights.rope_factors));
  }
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    std::string block = "blk." + std::to_string(layer) + ".";
    KVD_CHECK_OK(VisitAttention(config, visitor, block, layer, weights.layers[layer]));
    KVD_CHECK_OK(VisitFeedForward(config, visitor, block, layer, weights.layers[layer]));
  }
  // The head of a reranker: no part of the logits.
  KVD_CHECK_OK(visitor.Ignore("cls.output.weight"));
  return VisitOutput(config, visitor, weights);
}

}  // namespace

Status VisitTensors(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  weights.layers.resize(config.layer_count);
  switch (config.architecture) {
    case Architecture::kLlama:
    case Architecture::kQwen2:
    case Architecture::kQwen3: return DescribeLlama(config, visitor, weights);
  }
  return Fail(Code::kInternal, "architecture without a description of its tensors");
}

}  // namespace kvd
