// What the architectures of gemma share: the numbers of all of them, and the inputs of layers.
#pragma once

#include <cstddef>

#include "engine/forward/architectures/architecture.h"
#include "engine/model/config_reader.h"
#include "engine/model/layer_weights.h"
#include "engine/model/model_config.h"
#include "engine/model/model_format.h"

namespace kvd {

// Reads the keys that all gemma models share: heads, feed-forwards, the epsilon of norms and the
// rotation. Token embeddings are multiplied by sqrt(embedding_size). The first gemma (2024) has no
// other keys: it has neither windows nor norms of the layers' outputs.
Status ReadGemma(const ConfigReader& reader, ModelConfig& config);

// Inputs of layers, which gemma3n and gemma4 share (engine/model/layer_weights.h). Models
// without inputs of layers have embedding_length_per_layer_input = 0.

// Reads layer_input_size.
Status ReadLayerInputs(const ConfigReader& reader, ModelConfig& config);
// per_layer_token_embd, per_layer_model_proj, per_layer_proj_norm.
Status VisitLayerInputTable(const ModelConfig& config, TensorVisitor& visitor,
                            LayerInputTable& table);
// inp_gate, proj, post_norm.
Status VisitLayerInput(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                       LayerInputWeights& weights);

}  // namespace kvd
