#include "engine/model/model_format.h"

#include "base/check.h"

namespace kvd {

Status VisitTensors(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  weights.layers.resize(config.layer_count);
  KVD_ASSERT(config.format != nullptr);
  return config.format->visit_tensors(config, visitor, weights);
}

}  // namespace kvd
