#include "engine/forward/architectures/definitions.h"

#include <array>
#include <string>

#include "engine/forward/architectures/common_tensors.h"
#include "engine/forward/architectures/mamba.h"
#include "engine/forward/architectures/transformer.h"
#include "engine/forward/layers/attention_layer.h"
#include "engine/forward/layers/feed_forward.h"
#include "engine/forward/layers/mamba.h"
#include "engine/model/attention_config.h"

namespace kvd {

// ---- mamba parts
// Names and shapes are those of llama.cpp (src/models/mamba.cpp, mamba2.cpp).

namespace {

Status VisitConvolution(const ModelConfig& config, TensorVisitor& visitor, const std::string& block,
                        std::uint64_t channels, Presence bias, MambaWeights& weights) {
  const std::array<std::uint64_t, 2> taps = {config.ssm.conv_width, channels};
  KVD_CHECK_OK(visitor.Floats(block + "ssm_conv1d.weight", taps, VectorRole::kTaps,
                              Presence::kRequired, weights.taps));
  return visitor.Vector(block + "ssm_conv1d.bias", channels, VectorRole::kBias, bias,
                        weights.conv_bias);
}

}  // namespace

Status ReadSsm(const ConfigReader& reader, MambaKind kind, ModelConfig& config) {
  SsmConfig& ssm = config.ssm;
  KVD_TRY(ssm.conv_width, reader.Count("ssm.conv_kernel", ModelConfig::kConvolutionWidthMax));
  if (ssm.conv_width < 2) {
    return FailRange(reader.Key("ssm.conv_kernel"), ssm.conv_width, 2,
                     ModelConfig::kConvolutionWidthMax);
  }
  KVD_TRY(ssm.inner_size, reader.Count("ssm.inner_size", ModelConfig::kFeedForwardSizeMax));
  KVD_TRY(ssm.state_size, reader.Count("ssm.state_size", ModelConfig::kHeadDimMax));
  KVD_TRY(ssm.time_step_rank, reader.Count("ssm.time_step_rank", ModelConfig::kEmbeddingSizeMax));
  ssm.group_count = 1;
  if (kind == MambaKind::kFirst) return {};
  KVD_TRY(ssm.group_count, reader.Count("ssm.group_count", ModelConfig::kHeadCountMax));
  if (ssm.inner_size % ssm.time_step_rank != 0) {
    return Fail(Code::kCorrupt, reader.Key("ssm.inner_size"), ": ", ssm.inner_size,
                " is not a multiple of the ", ssm.time_step_rank, " heads");
  }
  if (ssm.time_step_rank % ssm.group_count != 0) {
    return Fail(Code::kCorrupt, reader.Key("ssm.group_count"), ": ", ssm.group_count,
                " does not divide the ", ssm.time_step_rank, " heads");
  }
  return {};
}

Status VisitMamba(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                  MambaNorms norms, MambaWeights& weights) {
  const std::string block = BlockPrefix(layer);
  const SsmConfig& ssm = config.ssm;
  const std::uint64_t embedding = config.embedding_size, inner = ssm.inner_size;
  const std::uint64_t states = ssm.state_size, rank = ssm.time_step_rank;
  KVD_CHECK_OK(VisitNorm(visitor, block + "attn_norm", embedding, weights.norm));
  KVD_CHECK_OK(VisitLinear(visitor, block + "ssm_in", embedding, 2 * inner, BiasRule::kNone,
                           ScaleRule::kBeforeBias, weights.in));
  KVD_CHECK_OK(VisitConvolution(config, visitor, block, inner, Presence::kRequired, weights));
  KVD_CHECK_OK(visitor.Matrix(block + "ssm_x.weight", inner, rank + 2 * states, Presence::kRequired,
                              weights.x.weight));
  if (norms == MambaNorms::kRequired) {
    KVD_CHECK_OK(VisitNorm(visitor, block + "ssm_dt_norm", rank, weights.dt_norm));
    KVD_CHECK_OK(VisitNorm(visitor, block + "ssm_b_norm", states, weights.b_norm));
    KVD_CHECK_OK(VisitNorm(visitor, block + "ssm_c_norm", states, weights.c_norm));
  }
  KVD_CHECK_OK(
      visitor.Matrix(block + "ssm_dt.weight", rank, inner, Presence::kRequired, weights.dt.weight));
  KVD_CHECK_OK(visitor.Vector(block + "ssm_dt.bias", inner, VectorRole::kBias, Presence::kRequired,
                              weights.dt.bias));
  const std::array<std::uint64_t, 2> a = {states, inner};
  KVD_CHECK_OK(
      visitor.Floats(block + "ssm_a", a, VectorRole::kDecayScale, Presence::kRequired, weights.a));
  KVD_CHECK_OK(
      visitor.Vector(block + "ssm_d", inner, VectorRole::kNorm, Presence::kRequired, weights.d));
  return VisitLinear(visitor, block + "ssm_out", inner, embedding, BiasRule::kNone,
                     ScaleRule::kBeforeBias, weights.out);
}

Status VisitMamba2(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                   bool has_norm, MambaWeights& weights) {
  const std::string block = BlockPrefix(layer);
  const SsmConfig& ssm = config.ssm;
  const std::uint64_t embedding = config.embedding_size, inner = ssm.inner_size;
  const std::uint64_t heads = ssm.time_step_rank, channels = ssm.convolved_channels();
  if (has_norm) {
    KVD_CHECK_OK(VisitNorm(visitor, block + "attn_norm", embedding, weights.norm));
  }
  KVD_CHECK_OK(VisitLinear(visitor, block + "ssm_in", embedding, inner + channels + heads,
                           BiasRule::kNone, ScaleRule::kBeforeBias, weights.in));
  KVD_CHECK_OK(VisitConvolution(config, visitor, block, channels, Presence::kOptional, weights));
  KVD_CHECK_OK(visitor.Vector(block + "ssm_dt.bias", heads, VectorRole::kBias, Presence::kRequired,
                              weights.dt_bias));
  const std::array<std::uint64_t, 2> by_head = {1, heads};
  KVD_CHECK_OK(visitor.Floats(block + "ssm_a", by_head, VectorRole::kDecayScale,
                              Presence::kRequired, weights.a));
  KVD_CHECK_OK(
      visitor.Floats(block + "ssm_d", by_head, VectorRole::kNorm, Presence::kRequired, weights.d));
  const std::array<std::uint64_t, 2> groups = {inner / ssm.group_count, ssm.group_count};
  KVD_CHECK_OK(visitor.Floats(block + "ssm_norm.weight", groups, VectorRole::kNorm,
                              Presence::kRequired, weights.out_norm));
  return VisitLinear(visitor, block + "ssm_out", inner, embedding, BiasRule::kNone,
                     ScaleRule::kBeforeBias, weights.out);
}

// ---- mamba
// x += Mixer(Norm(x)) in every layer, without a feed-forward (Gu and Dao 2023; Dao and Gu 2024).

namespace {

MambaKind KindOf(const ModelConfig& config) {
  return config.architecture == Architecture::kMamba ? MambaKind::kFirst : MambaKind::kSecond;
}

Status ReadMambaConfig(const ConfigReader& reader, ModelConfig& config) {
  config.layer_kind.assign(config.layer_count, LayerKind::kRecurrent);
  KVD_TRY(config.rms_epsilon, reader.RequiredPositive("attention.layer_norm_rms_epsilon"));
  return ReadSsm(reader, KindOf(config), config);
}

Status VisitTensorsOf(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    MambaWeights& into = weights.layers[layer].mamba;
    KVD_CHECK_OK(KindOf(config) == MambaKind::kFirst
                     ? VisitMamba(config, visitor, layer, MambaNorms::kNone, into)
                     : VisitMamba2(config, visitor, layer, true, into));
  }
  return VisitOutput(config, visitor, BiasRule::kNone, weights);
}

std::size_t SelectiveStateFloats(const ModelConfig& config, std::size_t) {
  return KindOf(config) == MambaKind::kFirst ? MambaStateFloats(config.ssm)
                                             : Mamba2StateFloats(config.ssm);
}

void RunMambaLayer(ForwardPass& pass, std::size_t layer) {
  const MambaWeights& weights = pass.weights().layers[layer].mamba;
  const RowBuffer& x = pass.NormedStream(weights.norm);
  if (KindOf(pass.config()) == MambaKind::kFirst) {
    RunMamba(pass, layer, weights, x);
  } else {
    RunMamba2(pass, layer, weights, x);
  }
}

constexpr ArchitectureDefinition DefineMamba(Architecture architecture, std::string_view name) {
  return {.format = {.architecture = architecture,
                     .name = name,
                     .read_config = ReadMambaConfig,
                     .visit_tensors = VisitTensorsOf,
                     .state_kind = architecture == Architecture::kMamba ? StateKind::kMamba
                                                                        : StateKind::kMamba2,
                     .state_floats = SelectiveStateFloats},
          .run_layer = RunMambaLayer};
}

}  // namespace

const ArchitectureDefinition kMambaDefinition = DefineMamba(Architecture::kMamba, "mamba");
const ArchitectureDefinition kMamba2Definition = DefineMamba(Architecture::kMamba2, "mamba2");

// ---- mamba hybrids
// Models with state-space layers and attention. A layer of jamba (Lieber et al. 2024) and
// granitehybrid has a state-space mixer or attention; a layer of falcon-h1 (Zuo et al. 2025) has
// both in parallel. Names, defaults and scales are those of llama.cpp (src/models/jamba.cpp,
// granite-hybrid.cpp, falcon-h1.cpp).

namespace {

bool IsHybridAttention(const ModelConfig& config, std::size_t layer) {
  return config.layer_kind[layer] == LayerKind::kAttention;
}

Status ReadHybridCommon(const ConfigReader& reader, HeadRule rule, MambaKind kind,
                        ModelConfig& config) {
  KVD_CHECK_OK(RequireCausal(reader));
  KVD_TRY(config.feed_forward_size, reader.PerLayer("feed_forward_length", config.layer_count,
                                                    ModelConfig::kFeedForwardSizeMax));
  KVD_CHECK_OK(ReadHeads(reader, rule, config));
  KVD_TRY(config.rms_epsilon, reader.RequiredPositive("attention.layer_norm_rms_epsilon"));
  return ReadSsm(reader, kind, config);
}

// ------------------------------------------------------------------------------------------- jamba

// Jamba's attention does not use positions, although its files declare rope dimensions.
Status ReadJamba(const ConfigReader& reader, ModelConfig& config) {
  config.has_rope = false;
  KVD_CHECK_OK(ReadHybridCommon(reader, HeadRule::kLayersWithKvHeads, MambaKind::kFirst, config));
  KVD_CHECK_OK(ReadExperts(reader, {.size_is_feed_forward = true}, config));
  // A layer without a router has an ordinary feed-forward.
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    const bool has_router =
        reader.file().FindTensor(BlockPrefix(layer) + "ffn_gate_inp.weight") != nullptr;
    config.has_experts[layer] = config.has_experts[layer] && has_router;
  }
  return {};
}

Status VisitJamba(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    LayerWeights& into = weights.layers[layer];
    KVD_CHECK_OK(IsHybridAttention(config, layer)
                     ? VisitAttention(config, visitor, layer, {}, into.attention)
                     : VisitMamba(config, visitor, layer, MambaNorms::kRequired, into.mamba));
    KVD_CHECK_OK(VisitFeedForwardOrExperts(config, visitor, layer, {}, {}, into));
  }
  return VisitOutput(config, visitor, BiasRule::kNone, weights);
}

std::size_t JambaStateFloats(const ModelConfig& config, std::size_t layer) {
  return IsHybridAttention(config, layer) ? 0 : MambaStateFloats(config.ssm);
}

void RunJambaLayer(ForwardPass& pass, std::size_t layer) {
  const LayerWeights& weights = pass.weights().layers[layer];
  if (IsHybridAttention(pass.config(), layer)) {
    RunAttentionLayer(pass, layer, weights.attention);
  } else {
    RunMamba(pass, layer, weights.mamba, pass.NormedStream(weights.mamba.norm));
  }
  RunFeedForwardOrExperts(pass, layer, Activation::kSilu);
}

// ----------------------------------------------------------------------------------- granitehybrid

Status ReadGraniteHybrid(const ConfigReader& reader, ModelConfig& config) {
  KVD_CHECK_OK(ReadHybridCommon(reader, HeadRule::kLayersWithKvHeads, MambaKind::kSecond, config));
  // Models that were trained without a rotation say so by the key rope.scaling.finetuned, although
  // they also declare rope dimensions.
  KVD_TRY(config.has_rope, reader.file().GetBoolOr(reader.Key("rope.scaling.finetuned"), true));
  if (config.has_rope) KVD_CHECK_OK(ReadRope(reader, true, config));
  KVD_CHECK_OK(ReadExperts(
      reader, {.is_normalised = true, .has_shared = true, .size_is_feed_forward = true}, config));
  return ReadGraniteScales(reader, config);
}

Status VisitGraniteHybrid(const ModelConfig& config, TensorVisitor& visitor,
                          ModelWeights& weights) {
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  KVD_CHECK_OK(VisitRopeFactors(config, visitor, weights));
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    LayerWeights& into = weights.layers[layer];
    KVD_CHECK_OK(IsHybridAttention(config, layer)
                     ? VisitAttention(config, visitor, layer, {.output_bias = BiasRule::kOptional},
                                      into.attention)
                     : VisitMamba2(config, visitor, layer, true, into.mamba));
    KVD_CHECK_OK(
        VisitFeedForwardOrExperts(config, visitor, layer, {.bias = BiasRule::kOptional}, {}, into));
  }
  return VisitOutput(config, visitor, BiasRule::kNone, weights);
}

std::size_t GraniteHybridStateFloats(const ModelConfig& config, std::size_t layer) {
  return IsHybridAttention(config, layer) ? 0 : Mamba2StateFloats(config.ssm);
}

void RunGraniteHybridLayer(ForwardPass& pass, std::size_t layer) {
  const LayerWeights& weights = pass.weights().layers[layer];
  if (IsHybridAttention(pass.config(), layer)) {
    RunAttentionLayer(pass, layer, weights.attention);
  } else {
    RunMamba2(pass, layer, weights.mamba, pass.NormedStream(weights.mamba.norm));
  }
  RunFeedForwardOrExperts(pass, layer, Activation::kSilu);
}

// --------------------------------------------------------------------------------------- falcon-h1

Status ReadFalconH1(const ConfigReader& reader, ModelConfig& config) {
  KVD_CHECK_OK(ReadHybridCommon(reader, HeadRule::kEveryLayer, MambaKind::kSecond, config));
  KVD_CHECK_OK(ReadRope(reader, false, config));
  KVD_TRY(const float scale, reader.PositiveOrNone("attention.scale"));
  if (scale != 0.0f) config.attention_scale = scale;
  return {};
}

Status VisitFalconH1(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  // falcon-h1 uses plain frequencies, even if the file has rope factors.
  KVD_CHECK_OK(visitor.Ignore("rope_freqs.weight"));
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    LayerWeights& into = weights.layers[layer];
    const std::string block = BlockPrefix(layer);
    KVD_CHECK_OK(VisitMamba2(config, visitor, layer, false, into.mamba));
    KVD_CHECK_OK(VisitAttention(config, visitor, layer, {}, into.attention));
    KVD_CHECK_OK(visitor.Ignore(block + "attn_output.bias"));
    KVD_CHECK_OK(VisitFeedForward(config, visitor, layer,
                                  {.bias = BiasRule::kOptional, .norm_suffix = ""},
                                  into.feed_forward));
  }
  return VisitOutput(config, visitor, BiasRule::kNone, weights);
}

std::size_t FalconH1StateFloats(const ModelConfig& config, std::size_t) {
  return Mamba2StateFloats(config.ssm);
}

// Mamba and attention read the same normed rows, and neither overwrites the rows.
void RunFalconH1Layer(ForwardPass& pass, std::size_t layer) {
  const LayerWeights& weights = pass.weights().layers[layer];
  const RowBuffer& x = pass.NormedStream(weights.attention.norm);
  pass.AddToStream(weights.attention.out, Attend(pass, layer, weights.attention, x));
  RunMamba2(pass, layer, weights.mamba, x);
  RunFeedForward(pass, weights.feed_forward, Activation::kSilu);
}

}  // namespace

const ArchitectureDefinition kJambaDefinition = {.format = {.architecture = Architecture::kJamba,
                                                            .name = "jamba",
                                                            .read_config = ReadJamba,
                                                            .visit_tensors = VisitJamba,
                                                            .state_kind = StateKind::kMamba,
                                                            .state_floats = JambaStateFloats},
                                                 .run_layer = RunJambaLayer};
const ArchitectureDefinition kGraniteHybridDefinition = {
    .format = {.architecture = Architecture::kGraniteHybrid,
               .name = "granitehybrid",
               .read_config = ReadGraniteHybrid,
               .visit_tensors = VisitGraniteHybrid,
               .state_kind = StateKind::kMamba2,
               .state_floats = GraniteHybridStateFloats},
    .run_layer = RunGraniteHybridLayer};
const ArchitectureDefinition kFalconH1Definition = {
    .format = {.architecture = Architecture::kFalconH1,
               .name = "falcon-h1",
               .read_config = ReadFalconH1,
               .visit_tensors = VisitFalconH1,
               .state_kind = StateKind::kMamba2,
               .state_floats = FalconH1StateFloats},
    .run_layer = RunFalconH1Layer};

}  // namespace kvd
