// ModelFormat: how the files of one architecture are read: its metadata, its tensors, and the
// amount of recurrent state that its layers keep. The computation of the layers is defined in
// engine/forward/architectures/architecture.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "engine/model/config_reader.h"
#include "engine/model/model_config.h"
#include "engine/model/model_weights.h"

namespace kvd {

// The tensors of each architecture: their names, shapes and places in ModelWeights, described once.
//
// VisitTensors visits all tensors of a config's architecture. BindWeights uses VisitTensors to find
// and check the tensors in a file; make-model uses VisitTensors to learn which tensors to write.
enum class Presence : std::uint8_t { kRequired, kOptional };

// The purpose of the f32 numbers of a tensor. make-model writes different values for each role.
enum class VectorRole : std::uint8_t {
  kNorm,
  kBias,
  kRopeFactors,
  kLongRopeFactors,
  kTaps,        // of a convolution
  kMix,         // weights of a mean, 0 to 1
  kDecayScale,  // negative
};

// A slice of rows of a fused matrix.
struct FusedPart {
  std::uint64_t out_features;
  LinearView* target;
};

// Visitors get the full name of a tensor and the place in ModelWeights that it fills. A visitor
// that only lists tensors leaves the place unchanged.
class TensorVisitor {
 public:
  virtual ~TensorVisitor() = default;
  // A matrix [out_features, in_features].
  virtual Status Matrix(const std::string& name, std::uint64_t in_features,
                        std::uint64_t out_features, Presence presence, WeightView& target) = 0;
  // `count` matrices [out_features, in_features] stored one after the other in one tensor. The
  // target has the rows of all matrices.
  virtual Status MatrixStack(const std::string& name, std::uint64_t in_features,
                             std::uint64_t out_features, std::uint64_t count, Presence presence,
                             WeightView& target) = 0;
  // f32 numbers of shape `dims`, fastest dimension first.
  virtual Status Floats(const std::string& name, std::span<const std::uint64_t> dims,
                        VectorRole role, Presence presence, const float*& target) = 0;
  Status Vector(const std::string& name, std::uint64_t element_count, VectorRole role,
                Presence presence, const float*& target) {
    return Floats(name, {&element_count, 1}, role, presence, target);
  }
  // An optional single f32.
  virtual Status Scale(const std::string& name, float& target) = 0;
  // An optional tensor that has no effect.
  virtual Status Ignore(const std::string& name) = 0;
  // Calls Ignore for all tensors whose names begin with `prefix`.
  virtual Status IgnoreAll(const std::string& prefix) = 0;
  // Whether the file has the tensor. For a visitor that only lists tensors, Has returns false.
  virtual bool Has(const std::string&) const { return false; }
  // NAME.weight and NAME.bias, which hold the rows of several matrices. Returns false if the file
  // stores the matrices separately.
  virtual Result<bool> Fused(const std::string& name, std::uint64_t in_features,
                             std::span<const FusedPart> parts) = 0;
};

// Resizes weights.layers and visits every tensor of the architecture.
Status VisitTensors(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights);

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
