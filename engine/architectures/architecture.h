// What one architecture is: how its metadata is read, which tensors it has, what its layers do.
//
// One file per family under engine/architectures; registry.cc lists them. Adding one means an
// enumerator in model_config.h, a file here, a line in the registry, and a golden case.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "engine/config_reader.h"
#include "engine/encoder_pass.h"
#include "engine/forward_pass.h"
#include "engine/model_config.h"
#include "engine/model_tensors.h"
#include "shm/error.h"

namespace kvd {

struct ArchitectureDefinition {
  Architecture architecture;
  std::string_view name;  // general.architecture

  // Reads what is particular, beyond vocab_size, context_length, embedding_size, layer_count and
  // tied_embeddings; layers are attention without heads, feed-forward and window beforehand.
  Status (*read_config)(const ConfigReader& reader, ModelConfig& config);
  // Visits every tensor that the architecture knows; weights.layers has its size.
  Status (*visit_tensors)(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights);
  // stream = what the layer makes of stream. Null: the model has no decoder.
  void (*run_layer)(ForwardPass& pass, std::size_t layer);

  // Floats of recurrent state that the layer keeps; null: no layer keeps any.
  std::size_t (*state_floats)(const ModelConfig& config, std::size_t layer) = nullptr;
  // Called once the (scaled) token embeddings are in the stream, before the first layer; or null.
  void (*begin)(ForwardPass& pass) = nullptr;
  // out[i] = the final norm of rows[i], before the product with the output matrix; null: an RMS
  // norm with weights.output_norm.
  void (*final_norm)(ForwardPass& pass, std::span<const float* const> rows,
                     float* const* out) = nullptr;
  // The encoder, layer by layer; null: it has none. encode_keys makes keys and values of the rows at
  // hand, in the first layer after their embeddings; encode_rows, once all keys are there, the rest of
  // the layer, so that behind the last one the stream holds the last hidden rows.
  void (*encode_keys)(EncoderPass& pass, std::size_t layer) = nullptr;
  void (*encode_rows)(EncoderPass& pass, std::size_t layer) = nullptr;
};

std::span<const ArchitectureDefinition* const> Architectures();
const ArchitectureDefinition& DefinitionOf(Architecture architecture);
// kUnsupported, naming the ones that are supported.
Result<const ArchitectureDefinition*> DefinitionByName(std::string_view name);

}  // namespace kvd
