#include "engine/model_tensors.h"

#include "engine/architectures/architecture.h"

namespace kvd {

Status VisitTensors(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  weights.layers.resize(config.layer_count);
  return DefinitionOf(config.architecture).visit_tensors(config, visitor, weights);
}

}  // namespace kvd
