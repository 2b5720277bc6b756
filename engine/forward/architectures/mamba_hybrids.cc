// Models with state-space layers and attention. A layer of jamba (Lieber et al. 2024) and
// granitehybrid has a state-space mixer or attention; a layer of falcon-h1 (Zuo et al. 2025) has
// both in parallel. Names, defaults and scales are those of llama.cpp (src/models/jamba.cpp,
// granite-hybrid.cpp, falcon-h1.cpp).
#include "engine/forward/architectures/common_tensors.h"
#include "engine/forward/architectures/mamba.h"
#include "engine/forward/architectures/mamba_parts.h"
#include "engine/forward/architectures/transformer.h"
#include "engine/forward/layers/attention_layer.h"
#include "engine/forward/layers/feed_forward.h"
#include "engine/forward/layers/mamba.h"
#include "engine/model/attention_config.h"

namespace kvd {
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
