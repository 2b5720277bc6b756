// x += Mixer(Norm(x)), x += FeedForward(Norm(x)); the mixer is attention with an output gate in the
// last of every full_attention_interval layers, a gated delta net in the others. Names and defaults
// are those of llama.cpp (src/models/qwen35.cpp).
#include "engine/architectures/qwen35.h"

#include <string>
#include <vector>

#include "engine/architectures/common_tensors.h"
#include "engine/attention_config.h"
#include "engine/layers/attention_layer.h"
#include "engine/layers/feed_forward.h"
#include "engine/layers/gated_delta_net.h"
#include "engine/layers/linear_attention.h"

namespace kvd {
namespace {

constexpr std::uint32_t kIntervalDefault = 4;

bool IsAttention(const ModelConfig& config, std::size_t layer) {
  return config.layer_kind[layer] == LayerKind::kAttention;
}

// Which layers are recurrent: those of a list, or all but the last of every interval.
Result<std::vector<bool>> ReadRecurrent(const ConfigReader& reader, std::uint32_t layer_count) {
  constexpr std::string_view kList = "attention.recurrent_layers";
  if (reader.Has(kList)) {
    KVD_TRY(auto recurrent, reader.file().GetBoolArray(reader.Key(kList)));
    if (recurrent.size() == layer_count) return recurrent;
    return Fail(Code::kCorrupt, reader.Key(kList) + ": " + std::to_string(recurrent.size()) +
                                    " elements, there are " + std::to_string(layer_count) +
                                    " layers");
  }
  KVD_TRY(const auto interval,
          reader.CountOr("full_attention_interval", kIntervalDefault, ModelConfig::kLayerCountMax));
  std::vector<bool> recurrent(layer_count);
  for (std::uint32_t layer = 0; layer < layer_count; ++layer) {
    recurrent[layer] = (layer + 1) % interval != 0;
  }
  return recurrent;
}

Status ReadDeltaNet(const ConfigReader& reader, DeltaNetConfig& config) {
  KVD_TRY(config.convolution_width,
          reader.Count("ssm.conv_kernel", ModelConfig::kConvolutionWidthMax));
  KVD_TRY(config.head_size, reader.Count("ssm.state_size", kLinearHeadSizeMax));
  KVD_TRY(config.key_heads, reader.Count("ssm.group_count", ModelConfig::kHeadCountMax));
  KVD_TRY(config.value_heads, reader.Count("ssm.time_step_rank", ModelConfig::kHeadCountMax));
  if (config.value_heads % config.key_heads != 0) {
    return Fail(Code::kCorrupt, reader.Key("ssm.time_step_rank") + ": " +
                                    std::to_string(config.value_heads) + " is no multiple of the " +
                                    std::to_string(config.key_heads) + " groups");
  }
  const std::uint64_t inner_size = std::uint64_t{config.value_heads} * config.head_size;
  KVD_TRY(const auto declared, reader.file().GetU64(reader.Key("ssm.inner_size")));
  if (declared == inner_size) return {};
  return FailRange(reader.Key("ssm.inner_size"), declared, inner_size, inner_size);
}

Status ReadConfig(const ConfigReader& reader, ModelConfig& config) {
  KVD_CHECK_OK(RequireCausal(reader));
  KVD_TRY(const auto predicting, reader.file().GetU64Or(reader.Key("nextn_predict_layers"), 0));
  if (predicting != 0) {
    return Fail(Code::kUnsupported, reader.Key("nextn_predict_layers") + ": " +
                                        std::to_string(predicting) +
                                        ", layers that predict further tokens are not supported");
  }
  KVD_TRY(config.feed_forward_size, reader.PerLayer("feed_forward_length", config.layer_count,
                                                    ModelConfig::kFeedForwardSizeMax));
  KVD_CHECK_OK(ReadHeads(reader, HeadRule::kLayersWithKvHeads, config));
  KVD_TRY(const std::vector<bool> recurrent, ReadRecurrent(reader, config.layer_count));
  for (std::uint32_t layer = 0; layer < config.layer_count; ++layer) {
    if (recurrent[layer]) {
      config.layer_kind[layer] = LayerKind::kRecurrent;
      config.kv_head_count[layer] = 0;
    } else if (config.kv_head_count[layer] == 0) {
      return FailRange(reader.Key("attention.head_count_kv"), 0, 1, ModelConfig::kHeadCountMax);
    }
  }
  KVD_TRY(config.rms_epsilon, reader.RequiredPositive("attention.layer_norm_rms_epsilon"));
  KVD_CHECK_OK(ReadRope(reader, false, config));
  KVD_CHECK_OK(ReadRopeSections(reader, config));
  return ReadDeltaNet(reader, config.delta_net);
}

// A product without bias.
Status VisitProduct(TensorVisitor& visitor, const std::string& name, std::uint64_t in_features,
                    std::uint64_t out_features, LinearView& target) {
  return VisitLinear(visitor, name, in_features, out_features, BiasRule::kNone,
                     ScaleRule::kBeforeBias, target);
}

Status VisitGatedAttention(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                           AttentionWeights& weights) {
  const std::string block = BlockPrefix(layer);
  const std::uint64_t embedding = config.embedding_size;
  const std::uint64_t q_size = std::uint64_t{config.head_count[layer]} * config.head_dim_k;
  const std::uint64_t kv_size = std::uint64_t{config.kv_head_count[layer]} * config.head_dim_k;
  weights.has_output_gate = true;
  KVD_CHECK_OK(VisitNorm(visitor, block + "attn_norm", embedding, weights.norm));
  KVD_CHECK_OK(VisitProduct(visitor, block + "attn_q", embedding, 2 * q_size, weights.q));
  KVD_CHECK_OK(VisitProduct(visitor, block + "attn_k", embedding, kv_size, weights.k));
  KVD_CHECK_OK(VisitProduct(visitor, block + "attn_v", embedding, kv_size, weights.v));
  for (const char* bias : {"attn_q.bias", "attn_k.bias", "attn_v.bias"}) {
    KVD_CHECK_OK(visitor.Ignore(block + bias));  // llama.cpp loads them and adds none
  }
  KVD_CHECK_OK(VisitNorm(visitor, block + "attn_q_norm", config.head_dim_k, weights.q_norm));
  KVD_CHECK_OK(VisitNorm(visitor, block + "attn_k_norm", config.head_dim_k, weights.k_norm));
  return VisitProduct(visitor, block + "attn_output", q_size, embedding, weights.out);
}

Status VisitDeltaNet(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                     GatedDeltaNetWeights& weights) {
  const std::string block = BlockPrefix(layer);
  const DeltaNetConfig& sizes = config.delta_net;
  const std::uint64_t embedding = config.embedding_size;
  const std::uint64_t values = std::uint64_t{sizes.value_heads} * sizes.head_size;
  const std::uint64_t channels = 2 * std::uint64_t{sizes.key_heads} * sizes.head_size + values;
  KVD_CHECK_OK(VisitNorm(visitor, block + "attn_norm", embedding, weights.norm));
  KVD_CHECK_OK(VisitProduct(visitor, block + "attn_qkv", embedding, channels, weights.qkv));
  KVD_CHECK_OK(VisitProduct(visitor, block + "attn_gate", embedding, values, weights.gate));
  const std::uint64_t taps[] = {sizes.convolution_width, channels};
  KVD_CHECK_OK(visitor.Floats(block + "ssm_conv1d.weight", taps, VectorRole::kTaps,
                              Presence::kRequired, weights.taps));
  KVD_CHECK_OK(visitor.Vector(block + "ssm_dt.bias", sizes.value_heads, VectorRole::kBias,
                              Presence::kRequired, weights.alpha_bias));
  KVD_CHECK_OK(visitor.Vector(block + "ssm_a", sizes.value_heads, VectorRole::kDecayScale,
                              Presence::kRequired, weights.decay_scale));
  KVD_CHECK_OK(
      VisitProduct(visitor, block + "ssm_beta", embedding, sizes.value_heads, weights.beta));
  KVD_CHECK_OK(
      VisitProduct(visitor, block + "ssm_alpha", embedding, sizes.value_heads, weights.alpha));
  KVD_CHECK_OK(VisitNorm(visitor, block + "ssm_norm", sizes.head_size, weights.head_norm));
  return VisitProduct(visitor, block + "ssm_out", values, embedding, weights.out);
}

Status VisitQwen35(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    LayerWeights& into = weights.layers[layer];
    KVD_CHECK_OK(IsAttention(config, layer)
                     ? VisitGatedAttention(config, visitor, layer, into.attention)
                     : VisitDeltaNet(config, visitor, layer, into.delta_net));
    KVD_CHECK_OK(VisitFeedForward(config, visitor, layer,
                                  {.scale = ScaleRule::kAfterBias, .norm = "post_attention_norm"},
                                  into.feed_forward));
  }
  return VisitOutput(config, visitor, BiasRule::kNone, weights);
}

std::size_t LayerStateFloats(const ModelConfig& config, std::size_t layer) {
  return IsAttention(config, layer) ? 0 : GatedDeltaNetStateFloats(config);
}

void RunLayer(ForwardPass& pass, std::size_t layer) {
  const LayerWeights& weights = pass.weights().layers[layer];
  if (IsAttention(pass.config(), layer)) {
    RunAttentionLayer(pass, layer, weights.attention);
  } else {
    RunGatedDeltaNet(pass, layer, weights.delta_net);
  }
  RunFeedForward(pass, layer, weights.feed_forward, Activation::kSilu);
}

}  // namespace

const ArchitectureDefinition kQwen35Definition = {.architecture = Architecture::kQwen35,
                                                  .name = "qwen35",
                                                  .read_config = ReadConfig,
                                                  .visit_tensors = VisitQwen35,
                                                  .run_layer = RunLayer,
                                                  .state_floats = LayerStateFloats};

}  // namespace kvd
