#include "engine/model_ropes.h"

#include <algorithm>

namespace kvd {

ModelRopes::ModelRopes(const ModelConfig& config, const ModelWeights& weights) {
  tables_.emplace_back(config.rope, weights.rope_factors);
  if (std::ranges::any_of(config.window, [](std::uint32_t window) { return window != 0; })) {
    tables_.emplace_back(config.window_rope, nullptr);
  }
}

std::size_t ModelRopes::pair_count_max() const {
  std::size_t count = 0;
  for (const RopeTable& table : tables_) count = std::max(count, table.pair_count());
  return count;
}

}  // namespace kvd
