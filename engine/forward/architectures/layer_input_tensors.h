// Inputs of layers, which gemma3n and gemma4 share (engine/model/layer_input_weights.h). Models
// without inputs of layers have embedding_length_per_layer_input = 0.
#pragma once

#include <cstddef>

#include "engine/model/config_reader.h"
#include "engine/model/layer_input_weights.h"
#include "engine/model/model_config.h"
#include "engine/model/model_tensors.h"

namespace kvd {

// Reads layer_input_size.
Status ReadLayerInputs(const ConfigReader& reader, ModelConfig& config);
// per_layer_token_embd, per_layer_model_proj, per_layer_proj_norm.
Status VisitLayerInputTable(const ModelConfig& config, TensorVisitor& visitor,
                            LayerInputTable& table);
// inp_gate, proj, post_norm.
Status VisitLayerInput(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                       LayerInputWeights& weights);

}  // namespace kvd
