#include "engine/forward/architectures/transformer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "engine/forward/architectures/encoder_parts.h"
#include "engine/forward/layers/attention_layer.h"
#include "engine/forward/layers/experts.h"
#include "engine/model/attention_config.h"

namespace kvd {
namespace {

constexpr std::string_view kDraftLayers = "nextn_predict_layers";

bool HasQkvBias(const GgufFile& file) {
  return file.FindTensor("blk.0.attn_q.bias") != nullptr ||
         file.FindTensor("blk.0.attn_k.bias") != nullptr ||
         file.FindTensor("blk.0.attn_v.bias") != nullptr ||
         file.FindTensor("blk.0.attn_qkv.bias") != nullptr;
}

// Reads a scale; 0 in the file means that the scale is not set.
Result<float> ScaleOr(const ConfigReader& reader, std::string_view suffix, float fallback) {
  KVD_TRY(const float scale, reader.PositiveOrNone(suffix));
  return scale == 0.0f ? fallback : scale;
}

}  // namespace

Status ExcludeDraftLayers(const ConfigReader& reader, ModelConfig& config) {
  KVD_TRY(const auto count, reader.file().GetU64Or(reader.Key(kDraftLayers), 0));
  if (count >= config.layer_count) {
    return FailRange(reader.Key(kDraftLayers), count, 0, config.layer_count - 1);
  }
  config.draft_layer_count = static_cast<std::uint32_t>(count);
  config.layer_count -= config.draft_layer_count;
  for (auto* numbers :
       {&config.head_count, &config.kv_head_count, &config.feed_forward_size, &config.window}) {
    numbers->resize(config.layer_count);
  }
  config.layer_kind.resize(config.layer_count);
  config.has_experts.resize(config.layer_count);
  config.is_unrotated.resize(config.layer_count);
  return {};
}

Status IgnoreDraftLayers(const ModelConfig& config, TensorVisitor& visitor) {
  for (std::uint32_t i = 0; i < config.draft_layer_count; ++i) {
    KVD_CHECK_OK(visitor.IgnoreAll(BlockPrefix(config.layer_count + i)));
  }
  return {};
}

Status ReadStreamScales(const ConfigReader& reader, const StreamScales& defaults,
                        ModelConfig& config) {
  const auto read = [&](const char* name, float value_if_missing) -> Result<float> {
    if (!reader.Has(name)) return value_if_missing;
    return ScaleOr(reader, name, 1.0f);
  };
  KVD_TRY(config.embedding_scale, read("embedding_scale", defaults.embedding));
  KVD_TRY(config.residual_scale, read("residual_scale", defaults.residual));
  KVD_TRY(const float divisor, read("logit_scale", defaults.logit_divisor));
  config.logit_scale = 1.0f / divisor;
  return {};
}

Status ReadGraniteScales(const ConfigReader& reader, ModelConfig& config) {
  KVD_TRY(config.attention_scale, ScaleOr(reader, "attention.scale", config.attention_scale));
  return ReadStreamScales(reader, {}, config);
}

Status VisitRopeFactors(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  if (!config.has_rope) return visitor.Ignore("rope_freqs.weight");
  return visitor.Vector("rope_freqs.weight", config.rope.rotated_dim / 2, VectorRole::kRopeFactors,
                        Presence::kOptional, weights.rope_factors);
}

Status VisitFeedForwardOrExperts(const ModelConfig& config, TensorVisitor& visitor,
                                 std::size_t layer, const FeedForwardTensors& dense,
                                 const ExpertTensors& experts, LayerWeights& weights) {
  if (!config.has_experts[layer]) {
    return VisitFeedForward(config, visitor, layer, dense, weights.feed_forward);
  }
  KVD_CHECK_OK(VisitFeedForwardNorm(config, visitor, layer, dense, weights.feed_forward));
  return VisitExperts(config, visitor, layer, experts, weights.experts);
}

void RunFeedForwardOrExperts(ForwardPass& pass, std::size_t layer, Activation activation) {
  const LayerWeights& weights = pass.weights().layers[layer];
  if (!pass.config().has_experts[layer]) {
    return RunFeedForward(pass, weights.feed_forward, activation);
  }
  RunExpertLayer(pass, weights.experts, activation, pass.NormedStream(weights.feed_forward.norm));
}

namespace {

// Whether the layers are those of EncodePreNormRows.
bool ReadsTexts(const TransformerTraits& traits, const ModelConfig& config) {
  const auto is_uniform = [](const std::vector<std::uint32_t>& numbers) {
    return std::ranges::count(numbers, numbers.front()) == std::ssize(numbers);
  };
  return traits.activation == Activation::kSilu && traits.has_pre_norm && !traits.has_post_norm &&
         !traits.has_layer_norms && !traits.has_norm_bias && !traits.is_parallel &&
         !traits.has_sinks && !traits.norms_rotated && traits.begin == nullptr &&
         (traits.qk_norm == QkNorm::kNone || traits.qk_norm == QkNorm::kHeads) &&
         config.experts.count == 0 && config.has_rope && config.long_rope_from == 0 &&
         config.query_scale == 0.0f && config.attention_softcap == 0.0f &&
         config.residual_scale == 1.0f && is_uniform(config.head_count) &&
         is_uniform(config.kv_head_count) && is_uniform(config.feed_forward_size) &&
         std::ranges::count(config.window, 0u) == std::ssize(config.window) &&
         std::ranges::count(config.is_unrotated, true) == 0;
}

Status ReadTextReading(const TransformerTraits& traits, const ConfigReader& reader,
                       ModelConfig& config) {
  if (!ReadsTexts(traits, config)) return {};
  EncoderConfig& encoder = config.encoder;
  encoder.layer_count = config.layer_count;
  encoder.head_count = config.head_count.front();
  encoder.kv_head_count = config.kv_head_count.front();
  encoder.head_dim = config.head_dim_k;
  encoder.feed_forward_size = config.feed_forward_size.front();
  encoder.attention_scale = config.attention_scale;
  encoder.is_causal = true;
  encoder.has_rope = true;
  encoder.classifier.row = Pooling::kLast;
  encoder.classifier.has_softmax = config.architecture == Architecture::kQwen3;
  return ReadPooling(reader, encoder);
}

// Makes the encoder's layers views of the decoder's.
void ShareLayers(ModelWeights& weights) {
  for (const LayerWeights& layer : weights.layers) {
    weights.encoder.layers.push_back({.attention_pre_norm = layer.attention.norm,
                                      .feed_forward_pre_norm = layer.feed_forward.norm,
                                      .q = layer.attention.q,
                                      .k = layer.attention.k,
                                      .v = layer.attention.v,
                                      .q_norm = layer.attention.q_norm,
                                      .k_norm = layer.attention.k_norm,
                                      .out = layer.attention.out,
                                      .gate = layer.feed_forward.gate,
                                      .up = layer.feed_forward.up,
                                      .down = layer.feed_forward.down});
  }
  weights.encoder.output_norm = {weights.output_norm, weights.output_norm_bias};
}

// output_norm and output, or the tied token embedding.
Status VisitFinal(const TransformerTraits& traits, const ModelConfig& config,
                  TensorVisitor& visitor, ModelWeights& weights) {
  if (!traits.has_norm_bias) return VisitOutput(config, visitor, traits.output_bias, weights);
  NormWeights norm;
  KVD_CHECK_OK(VisitLayerNorm(visitor, "output_norm", config.embedding_size, norm));
  weights.output_norm = norm.weight;
  weights.output_norm_bias = norm.bias;
  return VisitOutputMatrix(config, visitor, traits.output_bias, weights);
}

}  // namespace

Status ReadTransformer(const TransformerTraits& traits, const ConfigReader& reader,
                       ModelConfig& config) {
  KVD_CHECK_OK(RequireCausal(reader));
  const std::uint32_t file_layers = config.layer_count;
  if (traits.has_experts && !reader.Has("feed_forward_length") &&
      reader.Has("expert_feed_forward_length")) {
    KVD_TRY(const auto size,
            reader.Count("expert_feed_forward_length", ModelConfig::kFeedForwardSizeMax));
    config.feed_forward_size.assign(file_layers, size);
  } else {
    KVD_TRY(config.feed_forward_size,
            reader.PerLayer("feed_forward_length", file_layers, ModelConfig::kFeedForwardSizeMax));
  }
  KVD_CHECK_OK(ReadHeads(reader, HeadRule::kEveryLayer, config));
  config.is_parallel = traits.is_parallel;
  config.has_layer_norms = traits.has_layer_norms;
  if (traits.has_layer_norms) {
    KVD_TRY(config.layer_norm_epsilon, reader.RequiredPositive("attention.layer_norm_epsilon"));
  } else {
    KVD_TRY(config.rms_epsilon, reader.RequiredPositive("attention.layer_norm_rms_epsilon"));
  }
  KVD_CHECK_OK(ReadRope(reader, traits.rope_interleaved, config));
  if (traits.has_rope_factors && reader.file().FindTensor("rope_freqs.weight") != nullptr) {
    config.rope.scaling = RopeScaling::kLlama3;
  }
  config.has_qkv_bias = HasQkvBias(reader.file());
  config.has_qk_norm = traits.qk_norm != QkNorm::kNone &&
                       (!traits.qk_norm_is_optional ||
                        reader.file().FindTensor("blk.0.attn_q_norm.weight") != nullptr);
  if (traits.has_experts) KVD_CHECK_OK(ReadExperts(reader, traits.expert_rule, config));
  if (traits.has_granite_scales) KVD_CHECK_OK(ReadGraniteScales(reader, config));
  for (std::uint32_t layer = 0; traits.unrotated_period != 0 && layer < file_layers; ++layer) {
    config.is_unrotated[layer] = (layer + 1) % traits.unrotated_period == 0;
  }
  if (traits.has_draft_layers) KVD_CHECK_OK(ExcludeDraftLayers(reader, config));
  if (traits.read_more != nullptr) KVD_CHECK_OK(traits.read_more(reader, config));
  return ReadTextReading(traits, reader, config);
}

Status VisitTransformer(const TransformerTraits& traits, const ModelConfig& config,
                        TensorVisitor& visitor, ModelWeights& weights) {
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  if (traits.has_rope_factors) KVD_CHECK_OK(VisitRopeFactors(config, visitor, weights));
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    LayerWeights& into = weights.layers[layer];
    const bool has_second_norm =
        traits.has_second_norms && visitor.Has(BlockPrefix(layer) + "attn_norm_2.weight");
    KVD_CHECK_OK(VisitAttention(config, visitor, layer,
                                {.qk_norm = config.has_qk_norm ? traits.qk_norm : QkNorm::kNone,
                                 .norms_rotated = traits.norms_rotated,
                                 .has_pre_norm = traits.has_pre_norm,
                                 .has_norm_bias = traits.has_norm_bias,
                                 .norm = has_second_norm ? "attn_norm_2" : "attn_norm",
                                 .has_post_norm = traits.has_post_norm,
                                 .has_sinks = traits.has_sinks,
                                 .output_bias = traits.attention_output_bias},
                                into.attention));
    KVD_CHECK_OK(VisitFeedForwardOrExperts(
        config, visitor, layer,
        {.bias = traits.feed_forward_bias,
         .scale = traits.feed_forward_scale,
         .is_gated = IsGated(traits.activation),
         .has_pre_norm = config.is_parallel ? has_second_norm : traits.has_pre_norm,
         .has_norm_bias = traits.has_norm_bias,
         .has_post_norm = traits.has_post_norm,
         .has_fused_gate = traits.has_fused_gate,
         .norm = has_second_norm ? "attn_norm" : traits.feed_forward_norm},
        traits.expert_tensors, into));
  }
  KVD_CHECK_OK(IgnoreDraftLayers(config, visitor));
  if (traits.visit_more != nullptr) KVD_CHECK_OK(traits.visit_more(config, visitor, weights));
  KVD_CHECK_OK(VisitFinal(traits, config, visitor, weights));
  if (config.encoder.layer_count == 0) return visitor.Ignore("cls.output.weight");
  ShareLayers(weights);
  return VisitClassifier(config, visitor, weights);
}

void EncodeTransformerRows(EncoderPass& pass, std::size_t layer) {
  EncodePreNormRows(pass, layer, TextActivation::kSilu);
}

void RunTransformerLayer(const TransformerTraits& traits, ForwardPass& pass, std::size_t layer) {
  const LayerWeights& weights = pass.weights().layers[layer];
  if (!pass.config().is_parallel) {
    RunAttentionLayer(pass, layer, weights.attention);
    return RunFeedForwardOrExperts(pass, layer, traits.activation);
  }
  const RowBuffer& x = pass.NormedStream(weights.attention.norm);
  const RowBuffer& feed_forward_x =
      weights.feed_forward.norm.weight == nullptr
          ? x
          : pass.NormedStream(weights.feed_forward.norm, Scratch::kFeedForwardInput);
  RunAttentionLayerOn(pass, layer, weights.attention, x);
  RunFeedForwardOn(pass, weights.feed_forward, traits.activation, feed_forward_x);
}

void RunFinalNorm(ForwardPass& pass, std::span<const float* const> rows, float* const* out) {
  const NormWeights norm = {pass.weights().output_norm, pass.weights().output_norm_bias};
  pass.ForRows(rows.size(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      pass.NormRow(rows[row], norm, pass.config().embedding_size, out[row]);
    }
  });
}

}  // namespace kvd
