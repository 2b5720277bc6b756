// ArchitectureDefinition: how the metadata of one architecture is read, which tensors it has, and
// what its layers compute.
//
// Each family has one file under engine/forward/architectures; definitions.h declares the
// definitions, and registry.cc lists them. A new architecture needs an enumerator in
// model_config.h, a definition in the file of its family or in a new one, a line in definitions.h
// and in registry.cc, and a golden case.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/error.h"
#include "engine/forward/pass/encoder_pass.h"
#include "engine/forward/pass/forward_pass.h"
#include "engine/model/model_config.h"
#include "engine/model/model_format.h"

namespace kvd {

struct ArchitectureDefinition {
  ModelFormat format;

  // Runs one decoder layer on the stream. Null: the model has no decoder.
  void (*run_layer)(ForwardPass& pass, std::size_t layer) = nullptr;

  // `begin` is called before the first layer, when the (scaled) token embeddings are in the stream;
  // or null.
  void (*begin)(ForwardPass& pass) = nullptr;
  // out[i] = the final norm of rows[i], before the product with the output matrix. Null: an RMS
  // norm with weights.output_norm.
  void (*final_norm)(ForwardPass& pass, std::span<const float* const> rows,
                     float* const* out) = nullptr;
  // The layers of the encoder. Null: the model has no encoder. encode_keys makes keys and values of
  // the current rows; in the first layer it first embeds their tokens. encode_rows computes the
  // rest of the layer once the keys of all rows exist. After the last layer the stream holds the
  // encoder's output rows.
  void (*encode_keys)(EncoderPass& pass, std::size_t layer) = nullptr;
  void (*encode_rows)(EncoderPass& pass, std::size_t layer) = nullptr;
};

std::span<const ArchitectureDefinition* const> Architectures();
const ArchitectureDefinition& DefinitionOf(Architecture architecture);
// Finds an architecture's definition. Errors: kUnsupported (the message lists the supported names).
Result<const ArchitectureDefinition*> DefinitionByName(std::string_view name);
// Reads the config of the architecture that the file names. Errors: kUnsupported; those of the
// format's ReadModelConfig.
Result<ModelConfig> ReadModelConfig(const GgufFile& file);

}  // namespace kvd
