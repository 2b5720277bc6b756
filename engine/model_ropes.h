// The rotations of one model. Layers with a sliding window may rotate otherwise than the rest, and
// keys of a long sequence otherwise than those of a short one (docs/decisions/0008).
//
// Immutable after creation, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/model_config.h"
#include "engine/model_weights.h"
#include "engine/rope_table.h"
#include "shm/ids.h"

namespace kvd {

class ModelRopes {
 public:
  ModelRopes(const ModelConfig& config, const ModelWeights& weights);

  // Kinds of layers: 0 without a window; 1 with one, if the model has such layers.
  std::size_t kind_count() const { return tables_.size() / form_count_; }
  static std::size_t KindOf(const ModelConfig& config, std::size_t layer) {
    return config.window[layer] != 0 ? 1 : 0;
  }
  // Forms of keys (layout::CellRecord::key_form): 0; 1 for sequences that pass long_rope_from, if
  // the model has that.
  std::uint32_t form_count() const { return form_count_; }
  const RopeTable& table(std::size_t kind, std::uint32_t key_form) const {
    return tables_[kind * form_count_ + key_form];
  }
  std::size_t pair_count(std::size_t kind) const { return table(kind, 0).pair_count(); }
  std::size_t pair_count_max() const;

 private:
  std::uint32_t form_count_ = 1;
  std::vector<RopeTable> tables_;  // [kind, form]
};

// The form of the keys of a sequence whose last position is `last`.
inline std::uint32_t KeyFormAt(const ModelConfig& config, std::int64_t last) {
  return config.long_rope_from != 0 && last >= config.long_rope_from ? 1 : 0;
}

}  // namespace kvd
