#include "engine/forward/architectures/common_tensors.h"

#include <array>
#include <string>

#include "base/text.h"

namespace kvd {

// ---- expert tensors

namespace {

// Appends the matrices of `count` experts that are stored one after the other.
void Append(const WeightView& all, std::size_t count, ExpertMatrices& target) {
  if (!all) return;  // the visitor only lists tensors
  target.shape = all;
  target.shape.data = nullptr;
  target.shape.out_features = all.out_features / count;
  const std::size_t bytes =
      target.shape.out_features * kernels::RowBytes(all.type, all.in_features);
  for (std::size_t i = 0; i < count; ++i) target.data.push_back(all.data + i * bytes);
}

// STACKED.bias [out, count].
Status VisitExpertBias(TensorVisitor& visitor, const std::string& stacked,
                       std::uint64_t out_features, std::uint64_t count, ExpertMatrices& target) {
  const std::uint64_t dims[] = {out_features, count};
  target.bias_stride = out_features;
  return visitor.Floats(stacked + ".bias", dims, VectorRole::kBias, Presence::kRequired,
                        target.bias);
}

// BLOCKNAME_exps.weight [in, out, count], or BLOCKNAME.E.weight for each expert (files of 2023).
Status VisitMatrices(TensorVisitor& visitor, const std::string& name, std::uint64_t in_features,
                     std::uint64_t out_features, std::uint64_t count, bool has_bias,
                     ExpertMatrices& target) {
  if (visitor.Has(name + ".0.weight")) {
    for (std::uint64_t expert = 0; expert < count; ++expert) {
      const std::string own_name = Concat(name, ".", expert, ".weight");
      WeightView own;
      KVD_CHECK_OK(visitor.Matrix(own_name, in_features, out_features, Presence::kRequired, own));
      if (expert != 0 && own.type != target.shape.type) {
        return Fail(Code::kUnsupported, "tensor ", own_name, ": is ",
                    kernels::DataTypeName(own.type), ", that of expert 0 is ",
                    kernels::DataTypeName(target.shape.type));
      }
      Append(own, 1, target);
    }
    return {};
  }
  const std::string stacked = name + "_exps";
  WeightView all;
  KVD_CHECK_OK(visitor.MatrixStack(stacked + ".weight", in_features, out_features, count,
                                   Presence::kRequired, all));
  Append(all, count, target);
  if (has_bias) KVD_CHECK_OK(VisitExpertBias(visitor, stacked, out_features, count, target));
  return visitor.Vector(stacked + ".scale", count, VectorRole::kNorm, Presence::kOptional,
                        target.scales);
}

// The biases of fused experts: one tensor as the weights, or a tensor each for gate and up. The
// converters of llama.cpp keep the biases apart if they fuse the weights.
Status VisitFusedBiases(TensorVisitor& visitor, const std::string& block,
                        const ExpertConfig& config, ExpertWeights& weights) {
  const std::string fused = block + "ffn_gate_up_exps";
  if (!visitor.Has(fused + ".bias")) {
    KVD_CHECK_OK(
        VisitExpertBias(visitor, block + "ffn_gate_exps", config.size, config.count, weights.gate));
    return VisitExpertBias(visitor, block + "ffn_up_exps", config.size, config.count, weights.up);
  }
  KVD_CHECK_OK(VisitExpertBias(visitor, fused, 2ull * config.size, config.count, weights.gate));
  weights.up.bias_stride = weights.gate.bias_stride;
  weights.up.bias = weights.gate.bias + config.size;
  return {};
}

// ffn_gate_up_exps: each expert has the rows of its gate followed by the rows of up.
Result<bool> VisitFusedGate(TensorVisitor& visitor, const std::string& block,
                            const ExpertConfig& config, bool has_bias, ExpertWeights& weights) {
  const std::string name = block + "ffn_gate_up_exps";
  if (!visitor.Has(name + ".weight")) return false;
  WeightView all;
  KVD_CHECK_OK(visitor.MatrixStack(name + ".weight", config.input_size, 2ull * config.size,
                                   config.count, Presence::kRequired, all));
  KVD_CHECK_OK(visitor.Vector(name + ".scale", config.count, VectorRole::kNorm, Presence::kOptional,
                              weights.gate.scales));
  weights.up.scales = weights.gate.scales;
  Append(all, config.count, weights.gate);
  Append(all, config.count, weights.up);
  const std::size_t half = config.size * kernels::RowBytes(all.type, config.input_size);
  for (const std::byte*& data : weights.up.data) data += half;
  weights.gate.shape.out_features = weights.up.shape.out_features = config.size;
  if (has_bias) KVD_CHECK_OK(VisitFusedBiases(visitor, block, config, weights));
  return true;
}

Status VisitShared(const ModelConfig& config, TensorVisitor& visitor, const std::string& block,
                   const ExpertTensors& options, ExpertWeights& weights) {
  const std::uint64_t embedding = config.embedding_size, size = config.experts.shared_size;
  const auto visit = [&](const char* name, std::uint64_t in, std::uint64_t out,
                         LinearView& target) {
    return VisitLinear(visitor, block + name, in, out, BiasRule::kNone, ScaleRule::kBeforeBias,
                       target);
  };
  if (options.is_gated) {
    KVD_CHECK_OK(visit("ffn_gate_shexp", embedding, size, weights.shared.gate));
  }
  KVD_CHECK_OK(visit("ffn_up_shexp", embedding, size, weights.shared.up));
  KVD_CHECK_OK(visit("ffn_down_shexp", size, embedding, weights.shared.down));
  if (!options.has_shared_gate) return {};
  return visitor.Vector(block + "ffn_gate_inp_shexp.weight", embedding, VectorRole::kNorm,
                        Presence::kRequired, weights.shared_gate);
}

}  // namespace

Status VisitExperts(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                    const ExpertTensors& options, ExpertWeights& weights) {
  const std::string block = BlockPrefix(layer);
  const ExpertConfig& experts = config.experts;
  const std::uint64_t embedding = config.embedding_size, input = experts.input_size;
  KVD_CHECK_OK(VisitLinear(visitor, block + "ffn_gate_inp", embedding, experts.count,
                           options.has_bias ? BiasRule::kOptional : BiasRule::kNone,
                           ScaleRule::kIgnored, weights.router));
  if (options.has_selection_bias) {
    KVD_CHECK_OK(visitor.Vector(block + "exp_probs_b.bias", experts.count, VectorRole::kBias,
                                Presence::kOptional, weights.selection_bias));
  }
  if (input != embedding) {
    KVD_CHECK_OK(VisitLinear(visitor, block + "ffn_latent_down", embedding, input, BiasRule::kNone,
                             ScaleRule::kBeforeBias, weights.latent_down));
    KVD_CHECK_OK(VisitLinear(visitor, block + "ffn_latent_up", input, embedding, BiasRule::kNone,
                             ScaleRule::kBeforeBias, weights.latent_up));
  }
  KVD_TRY(const bool is_fused, VisitFusedGate(visitor, block, experts, options.has_bias, weights));
  if (!is_fused) {
    if (options.is_gated) {
      KVD_CHECK_OK(VisitMatrices(visitor, block + "ffn_gate", input, experts.size, experts.count,
                                 options.has_bias, weights.gate));
    }
    KVD_CHECK_OK(VisitMatrices(visitor, block + "ffn_up", input, experts.size, experts.count,
                               options.has_bias, weights.up));
  }
  KVD_CHECK_OK(VisitMatrices(visitor, block + "ffn_down", experts.size, input, experts.count,
                             options.has_bias, weights.down));
  if (experts.shared_size == 0) return {};
  return VisitShared(config, visitor, block, options, weights);
}

// ---- common tensors
Status VisitLinear(TensorVisitor& visitor, const std::string& name, std::uint64_t in_features,
                   std::uint64_t out_features, BiasRule bias, ScaleRule scale, LinearView& target) {
  KVD_CHECK_OK(visitor.Matrix(name + ".weight", in_features, out_features, Presence::kRequired,
                              target.weight));
  if (bias == BiasRule::kOptional) {
    KVD_CHECK_OK(visitor.Vector(name + ".bias", out_features, VectorRole::kBias,
                                Presence::kOptional, target.bias));
  }
  target.scale_after_bias = scale == ScaleRule::kAfterBias;
  // input_scale is the scale of activations that are quantised in advance. Products with float
  // activations do not use it.
  KVD_CHECK_OK(visitor.Ignore(name + ".input_scale"));
  if (scale == ScaleRule::kIgnored) return visitor.Ignore(name + ".scale");
  return visitor.Scale(name + ".scale", target.scale);
}

Status VisitNorm(TensorVisitor& visitor, const std::string& name, std::uint64_t element_count,
                 const float*& target) {
  return visitor.Vector(name + ".weight", element_count, VectorRole::kNorm, Presence::kRequired,
                        target);
}

Status VisitNorm(TensorVisitor& visitor, const std::string& name, std::uint64_t element_count,
                 NormWeights& target) {
  return VisitNorm(visitor, name, element_count, target.weight);
}

Status VisitLayerNorm(TensorVisitor& visitor, const std::string& name, std::uint64_t element_count,
                      NormWeights& target) {
  KVD_CHECK_OK(VisitNorm(visitor, name, element_count, target.weight));
  return visitor.Vector(name + ".bias", element_count, VectorRole::kBias, Presence::kRequired,
                        target.bias);
}

std::string BlockPrefix(std::size_t layer) { return Concat("blk.", layer, "."); }

namespace {

Status VisitQkv(const ModelConfig& config, TensorVisitor& visitor, const std::string& block,
                std::size_t layer, const AttentionTensors& options, AttentionWeights& weights) {
  std::uint64_t embedding = config.embedding_size;
  std::uint64_t q_size = std::uint64_t{config.head_count[layer]} * config.key_dim(layer);
  std::uint64_t k_size = std::uint64_t{config.kv_head_count[layer]} * config.key_dim(layer);
  std::uint64_t v_size = std::uint64_t{config.kv_head_count[layer]} * config.value_dim(layer);
  if (!config.caches(layer)) {
    // The layer reads the cells of another layer, so it has no keys and values of its own.
    for (const char* unused : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"}) {
      KVD_CHECK_OK(visitor.Ignore(block + unused));
    }
    return VisitLinear(visitor, block + "attn_q", embedding, q_size, BiasRule::kOptional,
                       ScaleRule::kBeforeBias, weights.q);
  }
  std::array<FusedPart, 3> parts = {
      {{q_size, &weights.q}, {k_size, &weights.k}, {v_size, &weights.v}}};
  KVD_TRY(bool fused, visitor.Fused(block + "attn_qkv", embedding, parts));
  if (fused) return {};
  KVD_CHECK_OK(VisitLinear(visitor, block + "attn_q", embedding, q_size, BiasRule::kOptional,
                           ScaleRule::kBeforeBias, weights.q));
  KVD_CHECK_OK(VisitLinear(visitor, block + "attn_k", embedding, k_size, BiasRule::kOptional,
                           ScaleRule::kBeforeBias, weights.k));
  if (options.keys_may_be_values && !visitor.Has(block + "attn_v.weight")) return {};
  return VisitLinear(visitor, block + "attn_v", embedding, v_size, BiasRule::kOptional,
                     ScaleRule::kBeforeBias, weights.v);
}

// NAME.weight, [head_dim_k, head_count].
Status VisitNormsOfHeads(const ModelConfig& config, TensorVisitor& visitor, const std::string& name,
                         std::uint64_t head_count, const float*& target) {
  const std::uint64_t dims[] = {config.head_dim_k, head_count};
  return visitor.Floats(name + ".weight", dims, VectorRole::kNorm, Presence::kRequired, target);
}

}  // namespace

Status VisitFusedGate(TensorVisitor& visitor, const std::string& name, std::uint64_t in_features,
                      std::uint64_t hidden, LinearView& gate, LinearView& up) {
  LinearView both;
  KVD_CHECK_OK(VisitLinear(visitor, name, in_features, 2 * hidden, BiasRule::kNone,
                           ScaleRule::kIgnored, both));
  if (!both.weight) return {};  // the visitor only lists tensors
  gate = up = both;
  gate.weight.out_features = up.weight.out_features = hidden;
  up.weight.data += hidden * kernels::RowBytes(both.weight.type, in_features);
  return {};
}

Status VisitAttention(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                      const AttentionTensors& options, AttentionWeights& weights) {
  const std::string block = BlockPrefix(layer);
  if (options.has_pre_norm) {
    KVD_CHECK_OK(
        options.has_norm_bias
            ? VisitLayerNorm(visitor, block + options.norm, config.embedding_size, weights.norm)
            : VisitNorm(visitor, block + options.norm, config.embedding_size, weights.norm));
  }
  weights.norms_values = options.norms_values;
  KVD_CHECK_OK(VisitQkv(config, visitor, block, layer, options, weights));
  weights.norms_rotated = options.norms_rotated;
  weights.has_norm_per_head = options.qk_norm == QkNorm::kHeadsApart;
  if (weights.has_norm_per_head) {
    KVD_CHECK_OK(VisitNormsOfHeads(config, visitor, block + "attn_q_norm", config.head_count[layer],
                                   weights.q_norm));
    KVD_CHECK_OK(VisitNormsOfHeads(config, visitor, block + "attn_k_norm",
                                   config.kv_head_count[layer], weights.k_norm));
  } else if (options.qk_norm != QkNorm::kNone) {
    weights.norms_rows = options.qk_norm == QkNorm::kRows;
    const std::uint64_t q_heads = weights.norms_rows ? config.head_count[layer] : 1;
    const std::uint64_t k_heads = weights.norms_rows ? config.kv_head_count[layer] : 1;
    const std::uint64_t dim = config.key_dim(layer);
    KVD_CHECK_OK(VisitNorm(visitor, block + "attn_q_norm", q_heads * dim, weights.q_norm));
    if (config.caches(layer)) {
      KVD_CHECK_OK(VisitNorm(visitor, block + "attn_k_norm", k_heads * dim, weights.k_norm));
    }
  }
  if (options.has_sinks) {
    KVD_CHECK_OK(visitor.Vector(block + "attn_sinks.weight", config.head_count[layer],
                                VectorRole::kBias, Presence::kRequired, weights.sinks));
  }
  if (options.has_post_norm) {
    KVD_CHECK_OK(VisitNorm(visitor, block + "post_attention_norm", config.embedding_size,
                           weights.post_norm));
  }
  return VisitLinear(visitor, block + "attn_output",
                     std::uint64_t{config.head_count[layer]} * config.value_dim(layer),
                     config.embedding_size, options.output_bias, ScaleRule::kBeforeBias,
                     weights.out);
}

Status VisitFeedForwardNorm(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                            const FeedForwardTensors& options, FeedForwardWeights& weights) {
  const std::string name = BlockPrefix(layer) + options.norm;
  if (options.has_norm_bias) {
    return VisitLayerNorm(visitor, name, config.embedding_size, weights.norm);
  }
  return visitor.Vector(name + options.norm_suffix, config.embedding_size, VectorRole::kNorm,
                        Presence::kRequired, weights.norm.weight);
}

Status VisitFeedForward(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                        const FeedForwardTensors& options, FeedForwardWeights& weights) {
  const std::string block = BlockPrefix(layer);
  const std::uint64_t embedding = config.embedding_size;
  const std::uint64_t hidden = config.feed_forward_size[layer];
  if (options.has_pre_norm) {
    KVD_CHECK_OK(VisitFeedForwardNorm(config, visitor, layer, options, weights));
  }
  if (options.has_post_norm) {
    KVD_CHECK_OK(VisitNorm(visitor, block + "post_ffw_norm", embedding, weights.post_norm));
  }
  if (options.has_fused_gate) {
    KVD_CHECK_OK(
        VisitFusedGate(visitor, block + "ffn_up", embedding, hidden, weights.gate, weights.up));
  } else {
    if (options.is_gated) {
      KVD_CHECK_OK(VisitLinear(visitor, block + "ffn_gate", embedding, hidden, options.bias,
                               options.scale, weights.gate));
    }
    KVD_CHECK_OK(VisitLinear(visitor, block + "ffn_up", embedding, hidden, options.bias,
                             options.scale, weights.up));
  }
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
