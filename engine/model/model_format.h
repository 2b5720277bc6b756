// ModelFormat: how the files of one architecture are read: its metadata, its tensors, and the
// amount of recurrent state that its layers keep. The computation of the layers is defined in
// engine/forward/architectures/architecture.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "engine/model/config_reader.h"
#include "engine/model/model_config.h"
#include "engine/model/model_tensors.h"

namespace kvd {

// What the recurrent state of a layer consists of.
enum class StateKind : std::uint8_t {
  kNone,
  kMamba,             // convolved channels, one row of states for each channel
  kMamba2,            // as kMamba, with the channels of B and C
  kRwkv6,             // two rows of the stream, a matrix for each head
  kRwkv7,             //
  kDeltaNet,          // convolved channels, a matrix for each head
  kShortConvolution,  // convolved channels
};

struct ModelFormat {
  Architecture architecture{};
  std::string_view name;  // general.architecture

  // Reads the architecture's own keys. vocab_size, context_length, embedding_size, layer_count and
  // tied_embeddings are already read, and every layer is an attention layer without heads,
  // feed-forward or window.
  Status (*read_config)(const ConfigReader& reader, ModelConfig& config) = nullptr;
  // Visits every tensor that the architecture has. weights.layers already has one entry per layer.
  Status (*visit_tensors)(const ModelConfig& config, TensorVisitor& visitor,
                          ModelWeights& weights) = nullptr;
  StateKind state_kind = StateKind::kNone;
  // Floats of recurrent state that the layer keeps. Null: no layer keeps any.
  std::size_t (*state_floats)(const ModelConfig& config, std::size_t layer) = nullptr;
};

// Floats of recurrent state that the layer keeps.
std::size_t StateFloatsOf(const ModelConfig& config, std::size_t layer);

// Errors: kUnsupported (the model needs a feature that is not implemented); kNotFound (a required
// key is missing); kCorrupt (a number is out of range; the message names the key, the number and
// the limit). REQUIRES: `format` is the format of general.architecture and outlives the config.
Result<ModelConfig> ReadModelConfig(const GgufFile& file, const ModelFormat& format);

}  // namespace kvd
