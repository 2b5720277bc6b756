// Multi-head latent attention as a part of the architectures deepseek2 and kimi-linear.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "engine/forward/architectures/common_tensors.h"
#include "engine/forward/architectures/definitions.h"
#include "engine/forward/architectures/transformer.h"
#include "engine/forward/layers/latent_attention.h"
#include "engine/forward/layers/linear_attention.h"
#include "engine/model/attention_config.h"
#include "engine/model/config_reader.h"
#include "engine/model/model_format.h"

namespace kvd {
namespace {

// Multi-head latent attention (DeepSeek-AI 2024, V2) as a part of architectures: the numbers and
// the tensors of its layers. Names are those of llama.cpp (src/models/deepseek2.cpp).

// Returns kCorrupt with this text if the key is present and is not `expected`: "KEY: FOUND, must be
// EXPECTED, MEANING".
Status RequireEqual(const ConfigReader& reader, std::string_view suffix, std::uint64_t expected,
                    std::string_view meaning) {
  KVD_TRY(const auto found, reader.file().GetU64Or(reader.Key(suffix), expected));
  if (found == expected) return {};
  return Fail(Code::kCorrupt, reader.Key(suffix), ": ", found, ", must be ", expected, ", ",
              meaning);
}

// Reads config.latent except query_rank, and sets kv_head_count, head_dim_k and head_dim_v to the
// shape of a cell. Returns the elements of a query head: plain_dim + shared_dim. Errors: kNotFound
// and kCorrupt; messages name the key. REQUIRES: ReadHeadCounts was called.
//
// Files with matrices per head (attn_k_b and attn_v_b) declare the lengths of a query head and of a
// value head by keys of their own, and the shape of a cell by the ordinary keys.
Result<std::uint32_t> ReadLatentHeads(const ConfigReader& reader, ModelConfig& config) {
  LatentAttentionConfig& latent = config.latent;
  KVD_TRY(latent.rank, reader.Count("attention.kv_lora_rank", ModelConfig::kHeadDimMax));
  latent.caches_latent =
      reader.Has("attention.key_length_mla") && reader.Has("attention.value_length_mla");
  const std::string_view key_suffix =
      latent.caches_latent ? "attention.key_length_mla" : "attention.key_length";
  const std::string_view value_suffix =
      latent.caches_latent ? "attention.value_length_mla" : "attention.value_length";
  KVD_TRY(const std::uint32_t query_dim, reader.Count(key_suffix, ModelConfig::kHeadDimMax));
  KVD_TRY(latent.value_dim, reader.Count(value_suffix, ModelConfig::kHeadDimMax));
  KVD_TRY(latent.shared_dim, reader.Count("rope.dimension_count", ModelConfig::kHeadDimMax));
  if (latent.shared_dim >= query_dim) {
    return FailRange(reader.Key("rope.dimension_count"), latent.shared_dim, 1, query_dim - 1);
  }
  latent.plain_dim = query_dim - latent.shared_dim;
  if (latent.caches_latent) {
    config.head_dim_k = latent.rank + latent.shared_dim;
    config.head_dim_v = latent.rank;
    KVD_CHECK_OK(RequireEqual(reader, "attention.key_length", config.head_dim_k,
                              "kv_lora_rank and rope.dimension_count together"));
  } else {
    config.head_dim_k = query_dim;
    config.head_dim_v = latent.value_dim;
  }
  for (std::uint32_t layer = 0; layer < config.layer_count; ++layer) {
    std::uint32_t& kv_heads = config.kv_head_count[layer];
    if (kv_heads == 0) continue;
    if (latent.caches_latent) {
      kv_heads = 1;
    } else if (kv_heads != config.head_count[layer]) {
      return Fail(Code::kCorrupt, reader.Key("attention.head_count_kv"), ": ", kv_heads,
                  " of layer ", layer, ", must be ", config.head_count[layer],
                  ", because every head has keys of its own");
    }
  }
  return query_dim;
}

// attn_norm, attn_q (or attn_q_a, attn_q_a_norm and attn_q_b), attn_kv_a_mqa, attn_kv_a_norm,
// attn_k_b and attn_v_b (or attn_kv_b), attn_output.
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
  const std::uint64_t query_size = heads * (latent.plain_dim + latent.shared_dim);
  if (latent.query_rank != 0) {
    KVD_CHECK_OK(linear("attn_q_a", embedding, latent.query_rank, weights.query_down));
    KVD_CHECK_OK(
        VisitNorm(visitor, block + "attn_q_a_norm", latent.query_rank, weights.query_norm));
    KVD_CHECK_OK(linear("attn_q_b", latent.query_rank, query_size, weights.query));
  } else {
    KVD_CHECK_OK(linear("attn_q", embedding, query_size, weights.query));
  }
  KVD_CHECK_OK(linear("attn_kv_a_mqa", embedding, latent.rank + latent.shared_dim, weights.latent));
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

// ---- deepseek2
// deepseek2: x += LatentAttention(Norm(x)), x += Experts(Norm(x)); the first layers have an
// ordinary feed-forward (DeepSeek-AI 2024, V2 and V3). Names and defaults are those of llama.cpp
// (src/models/deepseek2.cpp).

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

// ---- kimi linear
// kimi-linear: x += Mixer(Norm(x)), x += Experts(Norm(x)); the first layers have an ordinary
// feed-forward (Kimi Team 2025, "Kimi Linear"). The mixer is latent attention without rotation in
// layers that have KV heads, and Kimi Delta Attention in the other layers. Names and defaults are
// those of llama.cpp (src/models/kimi-linear.cpp).

namespace {

constexpr ExpertRule kKimiLinearExpertRule = {.gating = ExpertGating::kSigmoid,
                                              .gating_from = ExpertRule::From::kFile,
                                              .is_normalised = true,
                                              .reads_scale = true,
                                              .reads_groups = true,
                                              .has_shared = true,
                                              .reads_leading_dense = true};
constexpr ExpertTensors kKimiLinearExpertTensors = {.has_selection_bias = true};

bool IsKimiLinearAttention(const ModelConfig& config, std::size_t layer) {
  return config.layer_kind[layer] == LayerKind::kAttention;
}

Status ReadKimiLinearConfig(const ConfigReader& reader, ModelConfig& config) {
  KVD_CHECK_OK(RequireCausal(reader));
  KVD_TRY(config.feed_forward_size, reader.PerLayer("feed_forward_length", config.layer_count,
                                                    ModelConfig::kFeedForwardSizeMax));
  KVD_CHECK_OK(ReadHeadCounts(reader, HeadRule::kLayersWithKvHeads, config));
  KVD_TRY(const std::uint32_t query_dim, ReadLatentHeads(reader, config));
  config.attention_scale = 1.0f / std::sqrt(static_cast<float>(query_dim));
  config.has_rope = false;  // no rotation, although the files declare rope dimensions
  KVD_TRY(config.rms_epsilon, reader.RequiredPositive("attention.layer_norm_rms_epsilon"));
  DeltaNetConfig& delta = config.delta_net;
  KVD_TRY(delta.convolution_width,
          reader.Count("ssm.conv_kernel", ModelConfig::kConvolutionWidthMax));
  KVD_TRY(delta.head_size, reader.Count("kda.head_dim", kLinearHeadSizeMax));
  delta.key_heads = delta.value_heads = config.head_count.front();
  return ReadExperts(reader, kKimiLinearExpertRule, config);
}

Status VisitDeltaAttention(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                           KimiDeltaAttentionWeights& weights) {
  const std::string block = BlockPrefix(layer);
  const std::uint64_t embedding = config.embedding_size, heads = config.delta_net.key_heads;
  const std::uint64_t head_size = config.delta_net.head_size, all = heads * head_size;
  const auto linear = [&](const char* name, std::uint64_t in_features, std::uint64_t out_features,
                          LinearView& target) {
    return VisitLinear(visitor, block + name, in_features, out_features, BiasRule::kNone,
                       ScaleRule::kBeforeBias, target);
  };
  const auto taps = [&](const char* name, const float*& target) {
    const std::uint64_t dims[] = {config.delta_net.convolution_width, 1, all};
    return visitor.Floats(block + name, dims, VectorRole::kTaps, Presence::kRequired, target);
  };
  KVD_CHECK_OK(VisitNorm(visitor, block + "attn_norm", embedding, weights.norm));
  KVD_CHECK_OK(linear("attn_q", embedding, all, weights.q));
  KVD_CHECK_OK(linear("attn_k", embedding, all, weights.k));
  KVD_CHECK_OK(linear("attn_v", embedding, all, weights.v));
  KVD_CHECK_OK(taps("ssm_conv1d_q.weight", weights.q_taps));
  KVD_CHECK_OK(taps("ssm_conv1d_k.weight", weights.k_taps));
  KVD_CHECK_OK(taps("ssm_conv1d_v.weight", weights.v_taps));
  KVD_CHECK_OK(linear("ssm_beta", embedding, heads, weights.beta));
  KVD_CHECK_OK(linear("ssm_f_a", embedding, head_size, weights.decay_down));
  KVD_CHECK_OK(linear("ssm_f_b", head_size, all, weights.decay_up));
  KVD_CHECK_OK(visitor.Vector(block + "ssm_dt.bias", all, VectorRole::kBias, Presence::kRequired,
                              weights.decay_bias));
  const std::uint64_t scale_dims[] = {1, heads};
  KVD_CHECK_OK(visitor.Floats(block + "ssm_a", scale_dims, VectorRole::kDecayScale,
                              Presence::kRequired, weights.decay_scale));
  KVD_CHECK_OK(linear("ssm_g_a", embedding, head_size, weights.gate_down));
  KVD_CHECK_OK(linear("ssm_g_b", head_size, all, weights.gate_up));
  KVD_CHECK_OK(VisitNorm(visitor, block + "ssm_norm", head_size, weights.head_norm));
  return linear("attn_output", all, embedding, weights.out);
}

Status VisitKimiLinear(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    LayerWeights& into = weights.layers[layer];
    KVD_CHECK_OK(IsKimiLinearAttention(config, layer)
                     ? VisitLatentAttention(config, visitor, layer, into.latent_attention)
                     : VisitDeltaAttention(config, visitor, layer, into.kimi_delta_attention));
    KVD_CHECK_OK(
        VisitFeedForwardOrExperts(config, visitor, layer, {}, kKimiLinearExpertTensors, into));
  }
  return VisitOutput(config, visitor, BiasRule::kNone, weights);
}

std::size_t KimiLinearStateFloats(const ModelConfig& config, std::size_t layer) {
  return IsKimiLinearAttention(config, layer) ? 0 : KimiDeltaAttentionStateFloats(config);
}

void RunKimiLinearLayer(ForwardPass& pass, std::size_t layer) {
  if (IsKimiLinearAttention(pass.config(), layer)) {
    RunLatentAttentionLayer(pass, layer);
  } else {
    RunKimiDeltaAttention(pass, layer, pass.weights().layers[layer].kimi_delta_attention);
  }
  RunFeedForwardOrExperts(pass, layer, Activation::kSilu);
}

}  // namespace

const ArchitectureDefinition kKimiLinearDefinition = {
    .format = {.architecture = Architecture::kKimiLinear,
               .name = "kimi-linear",
               .read_config = ReadKimiLinearConfig,
               .visit_tensors = VisitKimiLinear,
               .state_kind = StateKind::kDeltaNet,
               .state_floats = KimiLinearStateFloats},
    .run_layer = RunKimiLinearLayer};

}  // namespace kvd
