#include "engine/forward/architectures/layer_input_tensors.h"

#include "engine/forward/architectures/common_tensors.h"

namespace kvd {

Status ReadLayerInputs(const ConfigReader& reader, ModelConfig& config) {
  const std::string key = reader.Key("embedding_length_per_layer_input");
  KVD_TRY(const auto size, reader.file().GetU64Or(key, 0));
  if (size > ModelConfig::kEmbeddingSizeMax) {
    return FailRange(key, size, 0, ModelConfig::kEmbeddingSizeMax);
  }
  config.layer_input_size = static_cast<std::uint32_t>(size);
  return {};
}

Status VisitLayerInputTable(const ModelConfig& config, TensorVisitor& visitor,
                            LayerInputTable& table) {
  const std::uint64_t size = config.layer_input_size;
  if (size == 0) return {};
  KVD_CHECK_OK(visitor.Matrix("per_layer_token_embd.weight", size * config.layer_count,
                              config.vocab_size, Presence::kRequired, table.embedding));
  KVD_CHECK_OK(VisitLinear(visitor, "per_layer_model_proj", config.embedding_size,
                           size * config.layer_count, BiasRule::kNone, ScaleRule::kBeforeBias,
                           table.projection));
  return VisitNorm(visitor, "per_layer_proj_norm", size, table.norm);
}

Status VisitLayerInput(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                       LayerInputWeights& weights) {
  const std::uint64_t size = config.layer_input_size, embedding = config.embedding_size;
  if (size == 0) return {};
  const std::string block = BlockPrefix(layer);
  KVD_CHECK_OK(VisitLinear(visitor, block + "inp_gate", embedding, size, BiasRule::kNone,
                           ScaleRule::kBeforeBias, weights.gate));
  KVD_CHECK_OK(VisitLinear(visitor, block + "proj", size, embedding, BiasRule::kNone,
                           ScaleRule::kBeforeBias, weights.out));
  return VisitNorm(visitor, block + "post_norm", embedding, weights.post_norm);
}

}  // namespace kvd
