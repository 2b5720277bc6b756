// deepseek2: x += LatentAttention(Norm(x)), x += Experts(Norm(x)); the first layers have an
// ordinary feed-forward (DeepSeek-AI 2024, V2 and V3). Names and defaults are those of llama.cpp
// (src/models/deepseek2.cpp).
#include "engine/forward/architectures/deepseek2.h"

#include <cmath>

#include "engine/forward/architectures/transformer.h"
#include "engine/forward/layers/latent_attention.h"
#include "engine/model/attention_config.h"

namespace kvd {
namespace {

constexpr ExpertRule kExpertRule = {.gating_from = ExpertRule::From::kFile,
                                    .normalised_from = ExpertRule::From::kFile,
                                    .reads_scale = true,
                                    .reads_groups = true,
                                    .has_shared = true,
                                    .reads_leading_dense = true};
constexpr ExpertTensors kExpertTensors = {.has_selection_bias = true};

Status RequireEqual(const ConfigReader& reader, std::string_view suffix, std::uint64_t expected,
                    std::string_view meaning) {
  KVD_TRY(const auto found, reader.file().GetU64Or(reader.Key(suffix), expected));
  if (found == expected) return {};
  return Fail(Code::kCorrupt, reader.Key(suffix), ": ", found, ", must be ", expected, ", ",
              meaning);
}

// The lengths of a query head and of a value head. Files with matrices per head (attn_k_b and
// attn_v_b) declare the two lengths by keys of their own, and the shape of a cell by the ordinary
// keys.
Status ReadHeadSizes(const ConfigReader& reader, ModelConfig& config, std::uint32_t& query_dim) {
  LatentAttentionConfig& latent = config.latent;
  latent.caches_latent =
      reader.Has("attention.key_length_mla") && reader.Has("attention.value_length_mla");
  const std::string_view key_suffix =
      latent.caches_latent ? "attention.key_length_mla" : "attention.key_length";
  const std::string_view value_suffix =
      latent.caches_latent ? "attention.value_length_mla" : "attention.value_length";
  KVD_TRY(query_dim, reader.Count(key_suffix, ModelConfig::kHeadDimMax));
  KVD_TRY(latent.value_dim, reader.Count(value_suffix, ModelConfig::kHeadDimMax));
  KVD_TRY(const auto rotated, reader.Count("rope.dimension_count", ModelConfig::kHeadDimMax));
  if (rotated >= query_dim) {
    return FailRange(reader.Key("rope.dimension_count"), rotated, 1, query_dim - 1);
  }
  latent.plain_dim = query_dim - rotated;
  if (!latent.caches_latent) {
    config.head_dim_k = query_dim;
    config.head_dim_v = latent.value_dim;
    for (std::uint32_t layer = 0; layer < config.layer_count; ++layer) {
      if (config.kv_head_count[layer] == config.head_count[layer]) continue;
      return Fail(Code::kCorrupt, reader.Key("attention.head_count_kv"), ": ",
                  config.kv_head_count[layer], " of layer ", layer, ", must be ",
                  config.head_count[layer], ", because every head has keys of its own");
    }
    return {};
  }
  config.head_dim_k = latent.rank + rotated;
  config.head_dim_v = latent.rank;
  KVD_CHECK_OK(RequireEqual(reader, "attention.key_length", config.head_dim_k,
                            "kv_lora_rank and rope.dimension_count together"));
  KVD_CHECK_OK(
      RequireEqual(reader, "attention.value_length", config.head_dim_v, "as kv_lora_rank"));
  config.kv_head_count.assign(config.layer_count, 1);
  return {};
}

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
  ExpertRule rule = kExpertRule;
  const bool is_glm = config.vocab_size == kGlmVocabulary &&
                      (config.layer_count == kGlmLayers || config.layer_count == kGlmLayers + 1);
  rule.gating = is_glm ? ExpertGating::kSigmoid : ExpertGating::kSoftmax;
  return rule;
}

Status Read(const ConfigReader& reader, ModelConfig& config) {
  KVD_CHECK_OK(RequireCausal(reader));
  KVD_TRY(config.feed_forward_size, reader.PerLayer("feed_forward_length", config.layer_count,
                                                    ModelConfig::kFeedForwardSizeMax));
  KVD_CHECK_OK(ReadHeadCounts(reader, HeadRule::kEveryLayer, config));
  LatentAttentionConfig& latent = config.latent;
  KVD_TRY(latent.rank, reader.Count("attention.kv_lora_rank", ModelConfig::kHeadDimMax));
  KVD_TRY(const auto query_rank,
          reader.file().GetU64Or(reader.Key("attention.q_lora_rank"), std::uint64_t{0}));
  if (query_rank > ModelConfig::kEmbeddingSizeMax) {
    return FailRange(reader.Key("attention.q_lora_rank"), query_rank, 0,
                     ModelConfig::kEmbeddingSizeMax);
  }
  latent.query_rank = static_cast<std::uint32_t>(query_rank);
  std::uint32_t query_dim = 0;
  KVD_CHECK_OK(ReadHeadSizes(reader, config, query_dim));
  KVD_TRY(config.rms_epsilon, reader.RequiredPositive("attention.layer_norm_rms_epsilon"));
  KVD_CHECK_OK(ReadRope(reader, true, config));
  config.rope.first_rotated = config.head_dim_k - config.rope.rotated_dim;
  KVD_CHECK_OK(ReadScales(reader, query_dim, config));
  config.window_rope = config.rope;
  KVD_CHECK_OK(ReadExperts(reader, RuleOf(config), config));
  return ExcludeDraftLayers(reader, config);
}

Status VisitLatentAttention(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                            LatentAttentionWeights& weights) {
  const LatentAttentionConfig& latent = config.latent;
  const std::string block = BlockPrefix(layer);
  const std::uint64_t embedding = config.embedding_size, heads = config.head_count[layer];
  const auto linear = [&](const char* name, std::uint64_t in_features, std::uint64_t out_features,
                          LinearView& target) {
    return VisitLinear(visitor, block + name, in_features, out_features, BiasRule::kNone,
                       ScaleRule::kBeforeBias, target);
  };
  KVD_CHECK_OK(VisitNorm(visitor, block + "attn_norm", embedding, weights.norm));
  const std::uint64_t query_size = heads * (latent.plain_dim + config.rope.rotated_dim);
  if (latent.query_rank != 0) {
    KVD_CHECK_OK(linear("attn_q_a", embedding, latent.query_rank, weights.query_down));
    KVD_CHECK_OK(
        VisitNorm(visitor, block + "attn_q_a_norm", latent.query_rank, weights.query_norm));
    KVD_CHECK_OK(linear("attn_q_b", latent.query_rank, query_size, weights.query));
  } else {
    KVD_CHECK_OK(linear("attn_q", embedding, query_size, weights.query));
  }
  KVD_CHECK_OK(
      linear("attn_kv_a_mqa", embedding, latent.rank + config.rope.rotated_dim, weights.latent));
  KVD_CHECK_OK(VisitNorm(visitor, block + "attn_kv_a_norm", latent.rank, weights.latent_norm));
  if (latent.caches_latent) {
    KVD_CHECK_OK(visitor.MatrixStack(block + "attn_k_b.weight", latent.plain_dim, latent.rank,
                                     heads, Presence::kRequired, weights.key_up));
    KVD_CHECK_OK(visitor.MatrixStack(block + "attn_v_b.weight", latent.rank, latent.value_dim,
                                     heads, Presence::kRequired, weights.value_up));
    // attn_k_b and attn_v_b are the two halves of attn_kv_b, which is not needed in addition.
    KVD_CHECK_OK(visitor.Ignore(block + "attn_kv_b.weight"));
  } else {
    KVD_CHECK_OK(linear("attn_kv_b", latent.rank, heads * (latent.plain_dim + latent.value_dim),
                        weights.key_value_up));
  }
  return linear("attn_output", heads * latent.value_dim, embedding, weights.out);
}

Status Visit(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    LayerWeights& into = weights.layers[layer];
    KVD_CHECK_OK(VisitLatentAttention(config, visitor, layer, into.latent_attention));
    KVD_CHECK_OK(VisitFeedForwardOrExperts(config, visitor, layer, {}, kExpertTensors, into));
  }
  KVD_CHECK_OK(IgnoreDraftLayers(config, visitor));
  return VisitOutput(config, visitor, BiasRule::kNone, weights);
}

void RunLayer(ForwardPass& pass, std::size_t layer) {
  RunLatentAttentionLayer(pass, layer);
  RunFeedForwardOrExperts(pass, layer, Activation::kSilu);
}

}  // namespace

const ArchitectureDefinition kDeepseek2Definition = {
    .format = {.architecture = Architecture::kDeepseek2,
               .name = "deepseek2",
               .read_config = Read,
               .visit_tensors = Visit},
    .run_layer = RunLayer};

}  // namespace kvd
