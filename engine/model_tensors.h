// The tensors that each architecture has: their names, shapes and places in ModelWeights, said
// once.
//
// VisitTensors walks the description of a config's architecture. BindWeights visits to find and
// check the tensors in a file; make-model visits to learn what to write.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/model_config.h"
#include "engine/model_weights.h"
#include "shm/error.h"

namespace kvd {

enum class Presence : std::uint8_t { kRequired, kOptional };

// What f32 numbers are for: make-model fills each kind with other numbers.
enum class VectorRole : std::uint8_t {
  kNorm,
  kBias,
  kRopeFactors,
  kLongRopeFactors,
  kTaps,        // of a convolution
  kMix,         // shares, 0 to 1
  kDecayScale,  // below 0
};

// A slice of the rows of a fused matrix.
struct FusedPart {
  std::uint64_t out_features;
  LinearView* target;
};

// Both visitors are called with the whole name of a tensor and the place that it fills; a visitor
// that only lists leaves the place as it is.
class TensorVisitor {
 public:
  virtual ~TensorVisitor() = default;
  // A matrix [out_features, in_features].
  virtual Status Matrix(const std::string& name, std::uint64_t in_features,
                        std::uint64_t out_features, Presence presence, WeightView& target) = 0;
  // Matrices [out_features, in_features], `count` of them back to back in one tensor; the target
  // sees the rows of all.
  virtual Status MatrixStack(const std::string& name, std::uint64_t in_features,
                             std::uint64_t out_features, std::uint64_t count, Presence presence,
                             WeightView& target) = 0;
  // f32 numbers of this shape, fastest first.
  virtual Status Floats(const std::string& name, std::span<const std::uint64_t> dims,
                        VectorRole role, Presence presence, const float*& target) = 0;
  Status Vector(const std::string& name, std::uint64_t element_count, VectorRole role,
                Presence presence, const float*& target) {
    return Floats(name, {&element_count, 1}, role, presence, target);
  }
  // An optional single f32.
  virtual Status Scale(const std::string& name, float& target) = 0;
  // An optional tensor without effect.
  virtual Status Ignore(const std::string& name) = 0;
  // NAME.weight and NAME.bias that hold the rows of several matrices; false when the file has them
  // apart.
  virtual Result<bool> Fused(const std::string& name, std::uint64_t in_features,
                             std::span<const FusedPart> parts) = 0;
};

// Sizes weights.layers and visits every tensor that the architecture knows.
Status VisitTensors(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights);

}  // namespace kvd
