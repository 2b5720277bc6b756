// deepseek2: x += LatentAttention(Norm(x)), x += Experts(Norm(x)); the first layers have an
// ordinary feed-forward (DeepSeek-AI 2024, V2 and V3). Names and defaults are those of llama.cpp
// (src/models/deepseek2.cpp).
#include "engine/forward/architectures/deepseek2.h"

#include <cmath>

#include "engine/forward/architectures/latent_parts.h"
#include "engine/forward/architectures/transformer.h"
#include "engine/forward/layers/latent_attention.h"
#include "engine/model/attention_config.h"

namespace kvd {
namespace {

constexpr ExpertRule kDeepseek2ExpertRule = {.gating_from = ExpertRule::From::kFile,
                                             .normalised_from = ExpertRule::From::kFile,
                                             .reads_scale = true,
                                             .reads_groups = true,
                                             .has_shared = true,
                                             .reads_leading_dense = true};
constexpr ExpertTensors kDeepseek2ExpertTensors = {.has_selection_bias = true};

// Scores are multiplied by (1 + 0.1 b ln factor)^2 if YaRN extends the context, where the file's
// yarn_log_multiplier is b / 10; cos and sin are then not multiplied.
Status ReadScales(const ConfigReader& reader, std::uint32_t query_dim, ModelConfig& config) {
  KVD_TRY(float scale, reader.Positive("rope.scaling.attn_factor", 1.0f));
  KVD_TRY(const float multiplier, reader.PositiveOrNone("rope.scaling.yarn_log_multiplier"));
  if (config.rope.scaling == RopeScaling::kYarn && multiplier != 0.0f) {
    config.rope.attention_factor = scale;
    scale *= 1.0f + multiplier * std::log(1.0f / config.rope.freq_scale);
  }
  config.attention_scale = scale * scale / std::sqrt(static_cast<float>(query_dim));
  KVD_TRY(config.query_scale, reader.PositiveOrNone("attention.temperature_scale"));
  KVD_TRY(config.query_scale_from,
          reader.CountOr("attention.temperature_length", config.rope.original_context_length,
                         config.context_length));
  return {};
}

// Files without expert_gating_func are those of V2 (softmax) and of GLM-4.7 Flash, which llama.cpp
// recognises by the sizes of the model.
ExpertRule RuleOf(const ModelConfig& config) {
  constexpr std::uint32_t kGlmVocabulary = 154880, kGlmLayers = 47;
  ExpertRule rule = kDeepseek2ExpertRule;
  const bool is_glm = config.vocab_size == kGlmVocabulary &&
                      (config.layer_count == kGlmLayers || config.layer_count == kGlmLayers + 1);
  rule.gating = is_glm ? ExpertGating::kSigmoid : ExpertGating::kSoftmax;
  return rule;
}

Status ReadDeepseek2(const ConfigReader& reader, ModelConfig& config) {
  KVD_CHECK_OK(RequireCausal(reader));
  KVD_TRY(config.feed_forward_size, reader.PerLayer("feed_forward_length", config.layer_count,
                                                    ModelConfig::kFeedForwardSizeMax));
  KVD_CHECK_OK(ReadHeadCounts(reader, HeadRule::kEveryLayer, config));
  KVD_TRY(const std::uint32_t query_dim, ReadLatentHeads(reader, config));
  if (config.latent.caches_latent) {
    KVD_CHECK_OK(
        RequireEqual(reader, "attention.value_length", config.head_dim_v, "as kv_lora_rank"));
  }
  KVD_TRY(const auto query_rank,
          reader.file().GetU64Or(reader.Key("attention.q_lora_rank"), std::uint64_t{0}));
  if (query_rank > ModelConfig::kEmbeddingSizeMax) {
    return FailRange(reader.Key("attention.q_lora_rank"), query_rank, 0,
                     ModelConfig::kEmbeddingSizeMax);
  }
  config.latent.query_rank = static_cast<std::uint32_t>(query_rank);
  KVD_TRY(config.rms_epsilon, reader.RequiredPositive("attention.layer_norm_rms_epsilon"));
  KVD_CHECK_OK(ReadRope(reader, true, config));
  config.rope.first_rotated = config.head_dim_k - config.rope.rotated_dim;
  KVD_CHECK_OK(ReadScales(reader, query_dim, config));
  config.window_rope = config.rope;
  KVD_CHECK_OK(ReadExperts(reader, RuleOf(config), config));
  return ExcludeDraftLayers(reader, config);
}

Status VisitDeepseek2(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    LayerWeights& into = weights.layers[layer];
    KVD_CHECK_OK(VisitLatentAttention(config, visitor, layer, into.latent_attention));
    KVD_CHECK_OK(
        VisitFeedForwardOrExperts(config, visitor, layer, {}, kDeepseek2ExpertTensors, into));
  }
  KVD_CHECK_OK(IgnoreDraftLayers(config, visitor));
  return VisitOutput(config, visitor, BiasRule::kNone, weights);
}

void RunDeepseek2Layer(ForwardPass& pass, std::size_t layer) {
  RunLatentAttentionLayer(pass, layer);
  RunFeedForwardOrExperts(pass, layer, Activation::kSilu);
}

}  // namespace

const ArchitectureDefinition kDeepseek2Definition = {
    .format = {.architecture = Architecture::kDeepseek2,
               .name = "deepseek2",
               .read_config = ReadDeepseek2,
               .visit_tensors = VisitDeepseek2},
    .run_layer = RunDeepseek2Layer};

}  // namespace kvd
