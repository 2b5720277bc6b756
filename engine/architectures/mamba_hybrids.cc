// State-space layers beside attention. jamba (Lieber et al. 2024) and granitehybrid have one or the
// other in a layer, falcon-h1 (Zuo et al. 2025) has both side by side. Names, defaults and what is
// scaled are those of llama.cpp (src/models/jamba.cpp, granite-hybrid.cpp, falcon-h1.cpp).
#include <cmath>

#include "engine/architectures/common_tensors.h"
#include "engine/architectures/mamba.h"
#include "engine/architectures/mamba_parts.h"
#include "engine/attention_config.h"
#include "engine/layers/attention_layer.h"
#include "engine/layers/feed_forward.h"
#include "engine/layers/mamba.h"

namespace kvd {
namespace {

bool IsAttention(const ModelConfig& config, std::size_t layer) {
  return config.layer_kind[layer] == LayerKind::kAttention;
}

Status ReadCommon(const ConfigReader& reader, HeadRule rule, MambaKind kind, ModelConfig& config) {
  KVD_CHECK_OK(RequireCausal(reader));
  KVD_TRY(config.feed_forward_size, reader.PerLayer("feed_forward_length", config.layer_count,
                                                    ModelConfig::kFeedForwardSizeMax));
  KVD_CHECK_OK(ReadHeads(reader, rule, config));
  KVD_TRY(config.rms_epsilon, reader.RequiredPositive("attention.layer_norm_rms_epsilon"));
  return ReadSsm(reader, kind, config);
}

// 0 in the file stands for "leave it out".
Result<float> ScaleOr(const ConfigReader& reader, std::string_view suffix, float fallback) {
  KVD_TRY(const float scale, reader.file().GetF32Or(reader.Key(suffix), 0.0f));
  if (scale == 0.0f) return fallback;
  return reader.Positive(suffix, fallback);
}

// ------------------------------------------------------------------------------------------- jamba

// Its attention knows no positions, although files name rope dimensions.
Status ReadJamba(const ConfigReader& reader, ModelConfig& config) {
  config.has_rope = false;
  return ReadCommon(reader, HeadRule::kLayersWithKvHeads, MambaKind::kFirst, config);
}

Status VisitJamba(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    LayerWeights& into = weights.layers[layer];
    KVD_CHECK_OK(IsAttention(config, layer)
                     ? VisitAttention(config, visitor, layer, {}, into.attention)
                     : VisitMamba(config, visitor, layer, MambaNorms::kRequired, into.mamba));
    KVD_CHECK_OK(VisitFeedForward(config, visitor, layer, {}, into.feed_forward));
  }
  return VisitOutput(config, visitor, BiasRule::kNone, weights);
}

std::size_t JambaStateFloats(const ModelConfig& config, std::size_t layer) {
  return IsAttention(config, layer) ? 0 : MambaStateFloats(config.ssm);
}

void RunJambaLayer(ForwardPass& pass, std::size_t layer) {
  const LayerWeights& weights = pass.weights().layers[layer];
  if (IsAttention(pass.config(), layer)) {
    RunAttentionLayer(pass, layer, weights.attention);
  } else {
    RunMamba(pass, layer, weights.mamba, pass.NormedStream(weights.mamba.norm));
  }
  RunFeedForward(pass, layer, weights.feed_forward, Activation::kSilu);
}

// ----------------------------------------------------------------------------------- granitehybrid

Status ReadGraniteHybrid(const ConfigReader& reader, ModelConfig& config) {
  KVD_CHECK_OK(ReadCommon(reader, HeadRule::kLayersWithKvHeads, MambaKind::kSecond, config));
  // Models that were trained without a rotation say so here, although they name rope dimensions.
  KVD_TRY(config.has_rope, reader.file().GetBoolOr(reader.Key("rope.scaling.finetuned"), true));
  if (config.has_rope) KVD_CHECK_OK(ReadRope(reader, true, config));
  KVD_TRY(config.embedding_scale, ScaleOr(reader, "embedding_scale", 1.0f));
  KVD_TRY(config.residual_scale, ScaleOr(reader, "residual_scale", 1.0f));
  KVD_TRY(config.attention_scale, ScaleOr(reader, "attention.scale", config.attention_scale));
  KVD_TRY(const float divisor, ScaleOr(reader, "logit_scale", 1.0f));
  config.logit_scale = 1.0f / divisor;
  return {};
}

Status VisitRopeFactors(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  if (!config.has_rope) return visitor.Ignore("rope_freqs.weight");
  return visitor.Vector("rope_freqs.weight", config.rope.rotated_dim / 2, VectorRole::kRopeFactors,
                        Presence::kOptional, weights.rope_factors);
}

Status VisitGraniteHybrid(const ModelConfig& config, TensorVisitor& visitor,
                          ModelWeights& weights) {
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  KVD_CHECK_OK(VisitRopeFactors(config, visitor, weights));
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    LayerWeights& into = weights.layers[layer];
    KVD_CHECK_OK(IsAttention(config, layer)
                     ? VisitAttention(config, visitor, layer, {.output_bias = BiasRule::kOptional},
                                      into.attention)
                     : VisitMamba2(config, visitor, layer, true, into.mamba));
    KVD_CHECK_OK(
        VisitFeedForward(config, visitor, layer, {.bias = BiasRule::kOptional}, into.feed_forward));
  }
  return VisitOutput(config, visitor, BiasRule::kNone, weights);
}

std::size_t GraniteHybridStateFloats(const ModelConfig& config, std::size_t layer) {
  return IsAttention(config, layer) ? 0 : Mamba2StateFloats(config.ssm);
}

void RunGraniteHybridLayer(ForwardPass& pass, std::size_t layer) {
  const LayerWeights& weights = pass.weights().layers[layer];
  if (IsAttention(pass.config(), layer)) {
    RunAttentionLayer(pass, layer, weights.attention);
  } else {
    RunMamba2(pass, layer, weights.mamba, pass.NormedStream(weights.mamba.norm));
  }
  RunFeedForward(pass, layer, weights.feed_forward, Activation::kSilu);
}

// --------------------------------------------------------------------------------------- falcon-h1

Status ReadFalconH1(const ConfigReader& reader, ModelConfig& config) {
  KVD_CHECK_OK(ReadCommon(reader, HeadRule::kEveryLayer, MambaKind::kSecond, config));
  KVD_CHECK_OK(ReadRope(reader, false, config));
  KVD_TRY(config.attention_scale, ScaleOr(reader, "attention.scale", config.attention_scale));
  return {};
}

Status VisitFalconH1(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  // It rotates by plain frequencies, whatever the file has.
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

// Both mixers read the same normed rows, which neither of them overwrites.
void RunFalconH1Layer(ForwardPass& pass, std::size_t layer) {
  const LayerWeights& weights = pass.weights().layers[layer];
  const RowBuffer& x = pass.NormedStream(weights.attention.norm);
  pass.AddToStream(weights.attention.out, Attend(pass, layer, weights.attention, x));
  RunMamba2(pass, layer, weights.mamba, x);
  RunFeedForward(pass, layer, weights.feed_forward, Activation::kSilu);
}

}  // namespace

const ArchitectureDefinition kJambaDefinition = {.architecture = Architecture::kJamba,
                                                 .name = "jamba",
                                                 .read_config = ReadJamba,
                                                 .visit_tensors = VisitJamba,
                                                 .run_layer = RunJambaLayer,
                                                 .state_floats = JambaStateFloats};
const ArchitectureDefinition kGraniteHybridDefinition = {
    .architecture = Architecture::kGraniteHybrid,
    .name = "granitehybrid",
    .read_config = ReadGraniteHybrid,
    .visit_tensors = VisitGraniteHybrid,
    .run_layer = RunGraniteHybridLayer,
    .state_floats = GraniteHybridStateFloats};
const ArchitectureDefinition kFalconH1Definition = {.architecture = Architecture::kFalconH1,
                                                    .name = "falcon-h1",
                                                    .read_config = ReadFalconH1,
                                                    .visit_tensors = VisitFalconH1,
                                                    .run_layer = RunFalconH1Layer,
                                                    .state_floats = FalconH1StateFloats};

}  // namespace kvd
