#include "engine/architectures/common_tensors.h"

#include <array>

namespace kvd {

Status VisitLinear(TensorVisitor& visitor, const std::string& name, std::uint64_t in_features,
                   std::uint64_t out_features, BiasRule bias, ScaleRule scale, LinearView& target) {
  KVD_CHECK_OK(visitor.Matrix(name + ".weight", in_features, out_features, Presence::kRequired,
                              target.weight));
  if (bias == BiasRule::kOptional) {
    KVD_CHECK_OK(visitor.Vector(name + ".bias", out_features, VectorRole::kBias,
                                Presence::kOptional, target.bias));
  }
  target.scale_after_bias = scale == ScaleRule::kAfterBias;
  // The scale of activations quantised beforehand; it has no part in a product with float
  // activations.
  KVD_CHECK_OK(visitor.Ignore(name + ".input_scale"));
  if (scale == ScaleRule::kIgnored) return visitor.Ignore(name + ".scale");
  return visitor.Scale(name + ".scale", target.scale);
}

Status VisitNorm(TensorVisitor& visitor, const std::string& name, std::uint64_t element_count,
                 const float*& target) {
  return visitor.Vector(name + ".weight", element_count, VectorRole::kNorm, Presence::kRequired,
                        target);
}

Status VisitLayerNorm(TensorVisitor& visitor, const std::string& name, std::uint64_t element_count,
                      LayerNormWeights& target) {
  KVD_CHECK_OK(VisitNorm(visitor, name, element_count, target.weight));
  return visitor.Vector(name + ".bias", element_count, VectorRole::kBias, Presence::kRequired,
                        target.bias);
}

std::string BlockPrefix(std::size_t layer) { return "blk." + std::to_string(layer) + "."; }

namespace {

Status VisitQkv(const ModelConfig& config, TensorVisitor& visitor, const std::string& block,
                std::size_t layer, AttentionWeights& weights) {
  std::uint64_t embedding = config.embedding_size;
  std::uint64_t q_size = std::uint64_t{config.head_count[layer]} * config.head_dim_k;
  std::uint64_t k_size = std::uint64_t{config.kv_head_count[layer]} * config.head_dim_k;
  std::uint64_t v_size = std::uint64_t{config.kv_head_count[layer]} * config.head_dim_v;
  std::array<FusedPart, 3> parts = {
      {{q_size, &weights.q}, {k_size, &weights.k}, {v_size, &weights.v}}};
  KVD_TRY(bool fused, visitor.Fused(block + "attn_qkv", embedding, parts));
  if (fused) return {};
  KVD_CHECK_OK(VisitLinear(visitor, block + "attn_q", embedding, q_size, BiasRule::kOptional,
                           ScaleRule::kBeforeBias, weights.q));
  KVD_CHECK_OK(VisitLinear(visitor, block + "attn_k", embedding, k_size, BiasRule::kOptional,
                           ScaleRule::kBeforeBias, weights.k));
  return VisitLinear(visitor, block + "attn_v", embedding, v_size, BiasRule::kOptional,
                     ScaleRule::kBeforeBias, weights.v);
}

}  // namespace

Status VisitAttention(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                      const AttentionTensors& options, AttentionWeights& weights) {
  const std::string block = BlockPrefix(layer);
  KVD_CHECK_OK(VisitNorm(visitor, block + "attn_norm", config.embedding_size, weights.norm));
  KVD_CHECK_OK(VisitQkv(config, visitor, block, layer, weights));
  if (options.has_qk_norm) {
    KVD_CHECK_OK(VisitNorm(visitor, block + "attn_q_norm", config.head_dim_k, weights.q_norm));
    KVD_CHECK_OK(VisitNorm(visitor, block + "attn_k_norm", config.head_dim_k, weights.k_norm));
  }
  if (options.has_post_norm) {
    KVD_CHECK_OK(VisitNorm(visitor, block + "post_attention_norm", config.embedding_size,
                           weights.post_norm));
  }
  return VisitLinear(
      visitor, block + "attn_output", std::uint64_t{config.head_count[layer]} * config.head_dim_v,
      config.embedding_size, options.output_bias, ScaleRule::kBeforeBias, weights.out);
}

Status VisitFeedForward(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                        const FeedForwardTensors& options, FeedForwardWeights& weights) {
  const std::string block = BlockPrefix(layer);
  const std::uint64_t embedding = config.embedding_size;
  const std::uint64_t hidden = config.feed_forward_size[layer];
  KVD_CHECK_OK(visitor.Vector(block + options.norm + options.norm_suffix, embedding,
                              VectorRole::kNorm, Presence::kRequired, weights.norm));
  if (options.has_post_norm) {
    KVD_CHECK_OK(VisitNorm(visitor, block + "post_ffw_norm", embedding, weights.post_norm));
  }
  KVD_CHECK_OK(VisitLinear(visitor, block + "ffn_gate", embedding, hidden, options.bias,
                           options.scale, weights.gate));
  KVD_CHECK_OK(VisitLinear(visitor, block + "ffn_up", embedding, hidden, options.bias,
                           options.scale, weights.up));
  return VisitLinear(visitor, block + "ffn_down", hidden, embedding, options.bias, options.scale,
                     weights.down);
}

Status VisitEmbedding(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  return visitor.Matrix("token_embd.weight", config.embedding_size, config.vocab_size,
                        Presence::kRequired, weights.token_embedding);
}

Status VisitOutput(const ModelConfig& config, TensorVisitor& visitor, BiasRule bias,
                   ModelWeights& weights) {
  KVD_CHECK_OK(VisitNorm(visitor, "output_norm", config.embedding_size, weights.output_norm));
  return VisitOutputMatrix(config, visitor, bias, weights);
}

Status VisitOutputMatrix(const ModelConfig& config, TensorVisitor& visitor, BiasRule bias,
                         ModelWeights& weights) {
  if (!config.tied_embeddings) {
    return VisitLinear(visitor, "output", config.embedding_size, config.vocab_size, bias,
                       ScaleRule::kBeforeBias, weights.output);
  }
  weights.output.weight = weights.token_embedding;
  if (bias == BiasRule::kNone) return {};
  return visitor.Vector("output.bias", config.vocab_size, VectorRole::kBias, Presence::kOptional,
                        weights.output.bias);
}

}  // namespace kvd
