// The rotations of one model. Layers with a sliding window may rotate otherwise than the rest.
//
// Immutable after creation, any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/model_config.h"
#include "engine/model_weights.h"
#include "engine/rope_table.h"

namespace kvd {

class ModelRopes {
 public:
  ModelRopes(const ModelConfig& config, const ModelWeights& weights);

  // Kinds of layers: 0 without a window; 1 with one, if the model has such layers.
  std::size_t kind_count() const { return tables_.size(); }
  static std::size_t KindOf(const ModelConfig& config, std::size_t layer) {
    return config.window[layer] != 0 ? 1 : 0;
  }
  const RopeTable& table(std::size_t kind) const { return tables_[kind]; }
  std::size_t pair_count_max() const;

 private:
  std::vector<RopeTable> tables_;
};

}  // namespace kvd
