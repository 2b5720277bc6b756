// qwen35, qwen35moe and qwen3next: x += Mixer(Norm(x)), x += FeedForward(Norm(x)). The mixer is
// attention with an output gate in the last of every full_attention_interval layers, and a gated
// delta net in the other layers. Names and defaults are those of llama.cpp (src/models/qwen35.cpp).
#include "engine/forward/architectures/definitions.h"

#include <string>
#include <vector>

#include "engine/forward/architectures/common_tensors.h"
#include "engine/forward/architectures/transformer.h"
#include "engine/forward/layers/attention_layer.h"
#include "engine/forward/layers/feed_forward.h"
#include "engine/forward/layers/linear_attention.h"
#include "engine/model/attention_config.h"

namespace kvd {
namespace {

constexpr std::uint32_t kIntervalDefault = 4;

bool IsQwen35Attention(const ModelConfig& config, std::size_t layer) {
  return config.layer_kind[layer] == LayerKind::kAttention;
}

// Which layers are recurrent: those that the file lists, or all but the last layer of every
// interval.
Result<std::vector<bool>> ReadRecurrent(const ConfigReader& reader, std::uint32_t layer_count) {
  constexpr std::string_view kList = "attention.recurrent_layers";
  if (reader.Has(kList)) {
    KVD_TRY(auto recurrent, reader.file().GetBoolArray(reader.Key(kList)));
    if (recurrent.size() == layer_count) return recurrent;
    return Fail(Code::kCorrupt, reader.Key(kList), ": ", recurrent.size(), " elements, there are ",
                layer_count, " layers");
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
    return Fail(Code::kCorrupt, reader.Key("ssm.time_step_rank"), ": ", config.value_heads,
                " is not a multiple of the ", config.key_heads, " groups");
  }
  const std::uint64_t inner_size = std::uint64_t{config.value_heads} * config.head_size;
  KVD_TRY(const auto declared, reader.file().GetU64(reader.Key("ssm.inner_size")));
  if (declared == inner_size) return {};
  return FailRange(reader.Key("ssm.inner_size"), declared, inner_size, inner_size);
}

Status ReadQwen35Config(const ConfigReader& reader, ModelConfig& config) {
  KVD_CHECK_OK(RequireCausal(reader));
  const bool has_experts = config.architecture != Architecture::kQwen35;
  if (!has_experts || reader.Has("feed_forward_length")) {
    KVD_TRY(config.feed_forward_size, reader.PerLayer("feed_forward_length", config.layer_count,
                                                      ModelConfig::kFeedForwardSizeMax));
  }
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
  const bool is_next = config.architecture == Architecture::kQwen3Next;
  if (!is_next) KVD_CHECK_OK(ReadRopeSections(reader, config));
  KVD_CHECK_OK(ReadDeltaNet(reader, config.delta_net));
  config.delta_net.groups_value_heads = is_next;
  if (has_experts) {
    KVD_CHECK_OK(ReadExperts(
        reader, {.is_normalised = true, .reads_scale = true, .has_shared = true}, config));
  }
  return ExcludeDraftLayers(reader, config);
}

// A linear layer without bias.
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
    KVD_CHECK_OK(visitor.Ignore(block + bias));  // llama.cpp loads the biases and does not add them
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
  if (visitor.Has(block + "ssm_in.weight")) {
    KVD_CHECK_OK(VisitProduct(visitor, block + "ssm_in", embedding, channels + values, weights.in));
  } else {
    KVD_CHECK_OK(VisitProduct(visitor, block + "attn_qkv", embedding, channels, weights.qkv));
    KVD_CHECK_OK(VisitProduct(visitor, block + "attn_gate", embedding, values, weights.gate));
  }
  const std::uint64_t taps[] = {sizes.convolution_width, channels};
  KVD_CHECK_OK(visitor.Floats(block + "ssm_conv1d.weight", taps, VectorRole::kTaps,
                              Presence::kRequired, weights.taps));
  KVD_CHECK_OK(visitor.Vector(block + "ssm_dt.bias", sizes.value_heads, VectorRole::kBias,
                              Presence::kRequired, weights.alpha_bias));
  KVD_CHECK_OK(visitor.Vector(block + "ssm_a", sizes.value_heads, VectorRole::kDecayScale,
                              Presence::kRequired, weights.decay_scale));
  if (config.architecture == Architecture::kQwen3Next) {
    KVD_CHECK_OK(VisitProduct(visitor, block + "ssm_ba", embedding, 2ull * sizes.value_heads,
                              weights.beta_alpha));
  } else {
    KVD_CHECK_OK(
        VisitProduct(visitor, block + "ssm_beta", embedding, sizes.value_heads, weights.beta));
    KVD_CHECK_OK(
        VisitProduct(visitor, block + "ssm_alpha", embedding, sizes.value_heads, weights.alpha));
  }
  KVD_CHECK_OK(VisitNorm(visitor, block + "ssm_norm", sizes.head_size, weights.head_norm));
  return VisitProduct(visitor, block + "ssm_out", values, embedding, weights.out);
}

Status VisitQwen35(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    LayerWeights& into = weights.layers[layer];
    KVD_CHECK_OK(IsQwen35Attention(config, layer)
                     ? VisitGatedAttention(config, visitor, layer, into.attention)
                     : VisitDeltaNet(config, visitor, layer, into.delta_net));
    KVD_CHECK_OK(VisitFeedForwardOrExperts(
        config, visitor, layer, {.scale = ScaleRule::kAfterBias, .norm = "post_attention_norm"},
        {.has_shared_gate = true}, into));
  }
  KVD_CHECK_OK(IgnoreDraftLayers(config, visitor));
  return VisitOutput(config, visitor, BiasRule::kNone, weights);
}

std::size_t Qwen35StateFloats(const ModelConfig& config, std::size_t layer) {
  return IsQwen35Attention(config, layer) ? 0 : GatedDeltaNetStateFloats(config);
}

void RunQwen35Layer(ForwardPass& pass, std::size_t layer) {
  const LayerWeights& weights = pass.weights().layers[layer];
  if (IsQwen35Attention(pass.config(), layer)) {
    RunAttentionLayer(pass, layer, weights.attention);
  } else {
    RunGatedDeltaNet(pass, layer, weights.delta_net);
  }
  RunFeedForwardOrExperts(pass, layer, Activation::kSilu);
}

constexpr ArchitectureDefinition DefineQwen35(Architecture architecture, std::string_view name) {
  return {.format = {.architecture = architecture,
                     .name = name,
                     .read_config = ReadQwen35Config,
                     .visit_tensors = VisitQwen35,
                     .state_kind = StateKind::kDeltaNet,
                     .state_floats = Qwen35StateFloats},
          .run_layer = RunQwen35Layer};
}

}  // namespace

const ArchitectureDefinition kQwen35Definition = DefineQwen35(Architecture::kQwen35, "qwen35");
const ArchitectureDefinition kQwen35MoeDefinition =
    DefineQwen35(Architecture::kQwen35Moe, "qwen35moe");
const ArchitectureDefinition kQwen3NextDefinition =
    DefineQwen35(Architecture::kQwen3Next, "qwen3next");

}  // namespace kvd
