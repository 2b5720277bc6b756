// x += Mixer(Norm(x)) in every layer, without a feed-forward (Gu and Dao 2023; Dao and Gu 2024).
#include "engine/forward/architectures/mamba.h"

#include "engine/forward/architectures/common_tensors.h"
#include "engine/forward/architectures/mamba_parts.h"
#include "engine/forward/layers/mamba.h"

namespace kvd {
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

}  // namespace kvd
