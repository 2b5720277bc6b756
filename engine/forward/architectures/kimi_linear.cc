// kimi-linear: x += Mixer(Norm(x)), x += Experts(Norm(x)); the first layers have an ordinary
// feed-forward (Kimi Team 2025, "Kimi Linear"). The mixer is latent attention without rotation in
// layers that have KV heads, and Kimi Delta Attention in the other layers. Names and defaults are
// those of llama.cpp (src/models/kimi-linear.cpp).
#include "engine/forward/architectures/kimi_linear.h"

#include <cmath>

#include "engine/forward/architectures/common_tensors.h"
#include "engine/forward/architectures/latent_parts.h"
#include "engine/forward/architectures/transformer.h"
#include "engine/forward/layers/kimi_delta_attention.h"
#include "engine/forward/layers/latent_attention.h"
#include "engine/forward/layers/linear_attention.h"
#include "engine/model/attention_config.h"

namespace kvd {
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
