// x += Layer(Norm(x)), where a layer is Mamba-2, or attention without positions, or a feed-forward
// or experts with squared ReLU (NVIDIA 2025). Names and defaults are those of llama.cpp
// (src/models/nemotron-h.cpp).
#include "engine/forward/architectures/definitions.h"

#include "engine/forward/architectures/common_tensors.h"
#include "engine/forward/architectures/mamba.h"
#include "engine/forward/layers/attention_layer.h"
#include "engine/forward/layers/experts.h"
#include "engine/forward/layers/feed_forward.h"
#include "engine/forward/layers/mamba.h"
#include "engine/model/attention_config.h"

namespace kvd {
namespace {

constexpr const char* kNorm = "attn_norm";

Status ReadNemotronExperts(const ConfigReader& reader, ModelConfig& config) {
  KVD_CHECK_OK(ReadExperts(reader,
                           {.gating = ExpertGating::kSigmoid,
                            .normalised_from = ExpertRule::From::kFile,
                            .reads_scale = true,
                            .reads_groups = true,
                            .has_shared = true},
                           config));
  constexpr std::string_view kLatent = "moe_latent_size";
  KVD_TRY(const auto latent, reader.file().GetU64Or(reader.Key(kLatent), 0));
  if (latent > ModelConfig::kEmbeddingSizeMax) {
    return FailRange(reader.Key(kLatent), latent, 0, ModelConfig::kEmbeddingSizeMax);
  }
  if (latent != 0) config.experts.input_size = static_cast<std::uint32_t>(latent);
  return {};
}

Status ReadNemotronHConfig(const ConfigReader& reader, ModelConfig& config) {
  KVD_CHECK_OK(RequireCausal(reader));
  KVD_TRY(config.feed_forward_size, reader.PerLayer("feed_forward_length", config.layer_count,
                                                    ModelConfig::kFeedForwardSizeMax, 0));
  KVD_CHECK_OK(ReadHeads(reader, HeadRule::kLayersWithKvHeads, config));
  KVD_TRY(config.rms_epsilon, reader.RequiredPositive("attention.layer_norm_rms_epsilon"));
  config.has_rope = false;  // no rotation, although the files declare rope dimensions
  KVD_CHECK_OK(ReadSsm(reader, MambaKind::kSecond, config));
  if (config.architecture == Architecture::kNemotronHMoe) {
    KVD_CHECK_OK(ReadNemotronExperts(reader, config));
  }
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    const bool is_feed_forward = config.feed_forward_size[layer] != 0;
    config.has_experts[layer] = config.has_experts[layer] && is_feed_forward;
    if (!is_feed_forward) continue;
    if (config.layer_kind[layer] == LayerKind::kAttention) {
      return Fail(Code::kCorrupt, reader.Key("feed_forward_length"), ": layer ", layer,
                  " has both attention and a feed-forward");
    }
    config.layer_kind[layer] = LayerKind::kFeedForward;
  }
  return {};
}

Status VisitTensors(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    LayerWeights& into = weights.layers[layer];
    if (config.layer_kind[layer] == LayerKind::kAttention) {
      KVD_CHECK_OK(VisitAttention(config, visitor, layer, {.output_bias = BiasRule::kOptional},
                                  into.attention));
    } else if (config.layer_kind[layer] == LayerKind::kRecurrent) {
      KVD_CHECK_OK(VisitMamba2(config, visitor, layer, true, into.mamba));
    } else if (config.has_experts[layer]) {
      KVD_CHECK_OK(VisitNorm(visitor, BlockPrefix(layer) + kNorm, config.embedding_size,
                             into.feed_forward.norm));
      KVD_CHECK_OK(VisitExperts(config, visitor, layer,
                                {.has_selection_bias = true, .is_gated = false}, into.experts));
    } else {
      KVD_CHECK_OK(VisitFeedForward(config, visitor, layer,
                                    {.bias = BiasRule::kOptional, .is_gated = false, .norm = kNorm},
                                    into.feed_forward));
    }
  }
  return VisitOutput(config, visitor, BiasRule::kNone, weights);
}

std::size_t NemotronHStateFloats(const ModelConfig& config, std::size_t layer) {
  return config.layer_kind[layer] == LayerKind::kRecurrent ? Mamba2StateFloats(config.ssm) : 0;
}

void RunNemotronHLayer(ForwardPass& pass, std::size_t layer) {
  const ModelConfig& config = pass.config();
  const LayerWeights& weights = pass.weights().layers[layer];
  if (config.layer_kind[layer] == LayerKind::kAttention) {
    RunAttentionLayer(pass, layer, weights.attention);
  } else if (config.layer_kind[layer] == LayerKind::kRecurrent) {
    RunMamba2(pass, layer, weights.mamba, pass.NormedStream(weights.mamba.norm));
  } else if (config.has_experts[layer]) {
    RunExpertLayer(pass, weights.experts, Activation::kSquaredRelu,
                   pass.NormedStream(weights.feed_forward.norm));
  } else {
    RunFeedForward(pass, weights.feed_forward, Activation::kSquaredRelu);
  }
}

constexpr ArchitectureDefinition DefineNemotronH(Architecture architecture, std::string_view name) {
  return {.format = {.architecture = architecture,
                     .name = name,
                     .read_config = ReadNemotronHConfig,
                     .visit_tensors = VisitTensors,
                     .state_kind = StateKind::kMamba2,
                     .state_floats = NemotronHStateFloats},
          .run_layer = RunNemotronHLayer};
}

}  // namespace

const ArchitectureDefinition kNemotronHDefinition =
    DefineNemotronH(Architecture::kNemotronH, "nemotron_h");
const ArchitectureDefinition kNemotronHMoeDefinition =
    DefineNemotronH(Architecture::kNemotronHMoe, "nemotron_h_moe");

}  // namespace kvd
