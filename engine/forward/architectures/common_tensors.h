// Reads the tensors that many architectures share; options select the differences between
// architectures. Names and shapes are those of llama.cpp (src/llama-arch.cpp; load_arch_tensors in
// src/models/*.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/model/model_format.h"

namespace kvd {

enum class BiasRule : std::uint8_t { kNone, kOptional };
enum class ScaleRule : std::uint8_t { kBeforeBias, kAfterBias, kIgnored };

// NAME.weight, and NAME.bias and NAME.scale according to the rules. NAME.input_scale is ignored.
Status VisitLinear(TensorVisitor& visitor, const std::string& name, std::uint64_t in_features,
                   std::uint64_t out_features, BiasRule bias, ScaleRule scale, LinearView& target);
// NAME.weight, a required f32 vector.
Status VisitNorm(TensorVisitor& visitor, const std::string& name, std::uint64_t element_count,
                 const float*& target);
Status VisitNorm(TensorVisitor& visitor, const std::string& name, std::uint64_t element_count,
                 NormWeights& target);

// NAME.weight and NAME.bias.
Status VisitLayerNorm(TensorVisitor& visitor, const std::string& name, std::uint64_t element_count,
                      NormWeights& target);

// "blk.LAYER."
std::string BlockPrefix(std::size_t layer);

// Norms of q and k: of each head (kHeadsApart: with weights of its own), or of all heads of a row
// together.
enum class QkNorm : std::uint8_t { kNone, kHeads, kHeadsApart, kRows };

struct AttentionTensors {
  QkNorm qk_norm = QkNorm::kNone;
  bool norms_rotated = false;  // q and k are normed after the rotation, not before
  bool has_pre_norm = true;
  bool has_norm_bias = false;      // of the norm of the layer's input
  const char* norm = "attn_norm";  // name of the norm of the layer's input
  bool has_post_norm = false;
  bool has_sinks = false;
  // A layer without attn_v has the products of attn_k as values (make-model writes this form).
  bool keys_may_be_values = false;
  bool norms_values = false;
  BiasRule output_bias = BiasRule::kNone;
};
// attn_norm, attn_q, attn_k, attn_v (or attn_qkv), attn_sinks, attn_output, post_attention_norm.
Status VisitAttention(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                      const AttentionTensors& options, AttentionWeights& weights);

struct FeedForwardTensors {
  BiasRule bias = BiasRule::kNone;
  ScaleRule scale = ScaleRule::kIgnored;
  bool is_gated = true;
  bool has_pre_norm = true;
  bool has_norm_bias = false;  // of the norm of the layer's input
  bool has_post_norm = false;
  bool has_fused_gate = false;    // ffn_up has the rows of the gate, then those of up
  const char* norm = "ffn_norm";  // name of the norm of the layer's input
  const char* norm_suffix = ".weight";
};
// The norm of the layer's input.
Status VisitFeedForwardNorm(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                            const FeedForwardTensors& options, FeedForwardWeights& weights);
// NAME.weight, which holds the `hidden` rows of the gate followed by those of up.
Status VisitFusedGate(TensorVisitor& visitor, const std::string& name, std::uint64_t in_features,
                      std::uint64_t hidden, LinearView& gate, LinearView& up);
// ffn_norm, ffn_gate, ffn_up, ffn_down, post_ffw_norm.
Status VisitFeedForward(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                        const FeedForwardTensors& options, FeedForwardWeights& weights);

// token_embd
Status VisitEmbedding(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights);
// output, or the tied token embedding.
Status VisitOutputMatrix(const ModelConfig& config, TensorVisitor& visitor, BiasRule bias,
                         ModelWeights& weights);
// output_norm, then as VisitOutputMatrix.
Status VisitOutput(const ModelConfig& config, TensorVisitor& visitor, BiasRule bias,
                   ModelWeights& weights);

// The tensors of a mixture of experts. Names and shapes are those of llama.cpp
// (src/llama-arch.cpp).
struct ExpertTensors {
  bool has_bias = false;            // of the router and of the experts
  bool has_selection_bias = false;  // exp_probs_b.bias; optional, because older files lack it
  bool is_gated = true;
  bool has_shared_gate = false;  // ffn_gate_inp_shexp
};

// ffn_gate_inp, exp_probs_b, ffn_{gate,up,down}_exps (or ffn_gate_up_exps, or a tensor for each
// expert), ffn_latent_{down,up}, ffn_{gate,up,down}_shexp. REQUIRES: config.has_experts[layer].
Status VisitExperts(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                    const ExpertTensors& options, ExpertWeights& weights);

}  // namespace kvd
