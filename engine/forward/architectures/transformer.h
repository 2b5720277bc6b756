// The family of llama: attention, then a gated feed-forward or a mixture of experts, each with
// norms before or after it. Each architecture of the family is described by one TransformerTraits.
#pragma once

#include <string_view>

#include "engine/forward/architectures/architecture.h"
#include "engine/forward/architectures/common_tensors.h"
#include "engine/forward/architectures/encoder_parts.h"
#include "engine/forward/layers/feed_forward.h"

namespace kvd {

// The differences of an architecture from the layers of llama,
//   x += Attention(Norm(x)), x += FeedForward(Norm(x))   (Touvron et al. 2023).
struct TransformerTraits {
  // ---- attention
  // True: pairs (2i, 2i + 1) rotate; false: pairs (i, i + rotated_dim / 2).
  bool rope_interleaved = false;
  bool has_rope_factors = false;  // reads rope_freqs.weight (llama3 scaling)
  // The last of every unrotated_period layers does not rotate queries and keys; 0: all layers
  // rotate.
  std::uint32_t unrotated_period = 0;
  QkNorm qk_norm = QkNorm::kNone;
  bool qk_norm_is_optional = false;  // the file may lack the norms of q and k
  bool norms_rotated = false;        // q and k are normed after the rotation
  BiasRule attention_output_bias = BiasRule::kNone;
  bool has_sinks = false;  // attn_sinks.weight

  // ---- norms of the input and of the output of attention and feed-forward
  bool has_layer_norms = false;  // layer norms instead of RMS norms
  bool has_norm_bias = false;    // norms of inputs, and the final norm, have a bias
  // x += Attention(Norm(x)) + FeedForward(Norm(x)). Attention and feed-forward read the same norm,
  // unless has_second_norms is set and the layer has attn_norm_2: then attn_norm_2 is the norm of
  // attention, and attn_norm is the norm of the feed-forward.
  bool is_parallel = false;
  bool has_second_norms = false;
  bool has_pre_norm = true;
  bool has_post_norm = false;
  const char* feed_forward_norm = "ffn_norm";

  // ---- feed-forward
  Activation activation = Activation::kSilu;
  BiasRule feed_forward_bias = BiasRule::kNone;
  ScaleRule feed_forward_scale = ScaleRule::kIgnored;
  bool has_fused_gate = false;  // ffn_up holds the rows of the gate followed by those of up
  ExpertRule expert_rule = {};
  ExpertTensors expert_tensors = {};
  bool has_experts = false;

  // ---- the rest
  BiasRule output_bias = BiasRule::kNone;
  bool has_granite_scales = false;  // embedding, residual, attention and logit scales
  // The last nextn_predict_layers layers of the file draft tokens; the engine does not run these
  // layers.
  bool has_draft_layers = false;
  // Reads further keys of the file after the common keys; or null.
  Status (*read_more)(const ConfigReader& reader, ModelConfig& config) = nullptr;
  // Visits further tensors of the architecture; or null.
  Status (*visit_more)(const ModelConfig& config, TensorVisitor& visitor,
                       ModelWeights& weights) = nullptr;
  void (*begin)(ForwardPass& pass) = nullptr;  // as in ArchitectureDefinition
};

Status ReadTransformer(const TransformerTraits& traits, const ConfigReader& reader,
                       ModelConfig& config);
Status VisitTransformer(const TransformerTraits& traits, const ModelConfig& config,
                        TensorVisitor& visitor, ModelWeights& weights);
void RunTransformerLayer(const TransformerTraits& traits, ForwardPass& pass, std::size_t layer);
// Reading texts for embeddings, without cells. Only models whose layers are those of llama, with
// norms of q and k or without, read texts; others have no encoder in their config.
void EncodeTransformerRows(EncoderPass& pass, std::size_t layer);
// The final norm of models with layer norms or with biases of norms.
void RunFinalNorm(ForwardPass& pass, std::span<const float* const> rows, float* const* out);

// Returns the definition of the architecture whose differences from llama are kTraits.
template <const TransformerTraits& kTraits>
constexpr ArchitectureDefinition DefineTransformer(Architecture architecture,
                                                   std::string_view name) {
  return {
      .format = {.architecture = architecture,
                 .name = name,
                 .read_config =
                     [](const ConfigReader& reader, ModelConfig& config) {
                       return ReadTransformer(kTraits, reader, config);
                     },
                 .visit_tensors =
                     [](const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
                       return VisitTransformer(kTraits, config, visitor, weights);
                     }},
      .run_layer = [](ForwardPass& pass,
                      std::size_t layer) { RunTransformerLayer(kTraits, pass, layer); },
      .begin = kTraits.begin,
      .final_norm = kTraits.has_layer_norms || kTraits.has_norm_bias ? RunFinalNorm : nullptr,
      .encode_keys = EncodePreNormKeys,
      .encode_rows = EncodeTransformerRows};
}

// ---- parts for architectures that also have layers of other kinds

// Reduces layer_count to the layers that are run: all but the layers for drafting tokens.
Status ExcludeDraftLayers(const ConfigReader& reader, ModelConfig& config);
// Marks the tensors of the excluded layers as having no effect.
Status IgnoreDraftLayers(const ModelConfig& config, TensorVisitor& visitor);
// The scales of a file that does not declare them.
struct StreamScales {
  float embedding = 1.0f;
  float residual = 1.0f;
  float logit_divisor = 1.0f;
};
// embedding_scale, residual_scale, logit_scale (logits are divided by it). A scale that is 0 in the
// file becomes 1; a missing scale has its default. Errors: kCorrupt (a scale is negative or not
// finite).
Status ReadStreamScales(const ConfigReader& reader, const StreamScales& defaults,
                        ModelConfig& config);
// ReadStreamScales, and attention.scale. A scale that is 0 or missing in the file becomes 1, or the
// usual attention scale.
Status ReadGraniteScales(const ConfigReader& reader, ModelConfig& config);
// rope_freqs.weight, optional.
Status VisitRopeFactors(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights);
// The feed-forward of a layer: experts if config.has_experts[layer], else one feed-forward.
Status VisitFeedForwardOrExperts(const ModelConfig& config, TensorVisitor& visitor,
                                 std::size_t layer, const FeedForwardTensors& dense,
                                 const ExpertTensors& experts, LayerWeights& weights);
void RunFeedForwardOrExperts(ForwardPass& pass, std::size_t layer, Activation activation);

}  // namespace kvd
