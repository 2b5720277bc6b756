#include "engine/model/model_ropes.h"

#include <algorithm>

namespace kvd {

ModelRopes::ModelRopes(const ModelConfig& config, const ModelWeights& weights)
    : form_count_(config.long_rope_from != 0 ? 2 : 1) {
  tables_.emplace_back(config.rope, weights.rope_factors);
  if (form_count_ == 2) tables_.emplace_back(config.rope, weights.long_rope_factors);
  if (std::ranges::any_of(config.window, [](std::uint32_t window) { return window != 0; })) {
    for (std::uint32_t form = 0; form < form_count_; ++form) {
      tables_.emplace_back(config.window_rope,
                           config.window_has_factors ? weights.rope_factors : nullptr);
    }
  }
}

std::size_t ModelRopes::pair_count_max() const {
  std::size_t count = 0;
  for (const RopeTable& table : tables_) count = std::max(count, table.pair_count());
  return count;
}

}  // namespace kvd
