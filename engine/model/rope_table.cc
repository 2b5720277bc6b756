#include "engine/model/rope_table.h"

#include <algorithm>
#include <cmath>

namespace kvd {

// ---- rope table
RopeTable::RopeTable(const RopeConfig& config, const float* factors)
    : attention_factor_(config.attention_factor) {
  const std::size_t pair_count = config.rotated_dim / 2;
  frequencies_.resize(pair_count);
  for (std::size_t i = 0; i < pair_count; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / config.rotated_dim;
    const double divisor = factors == nullptr ? 1.0 : static_cast<double>(factors[i]);
    const double extrapolated = std::pow(static_cast<double>(config.freq_base), exponent) / divisor;
    const double interpolated = extrapolated * config.freq_scale;
    double mix = 0.0;
    if (config.yarn_ext_factor != 0.0f) {
      const double width = std::max(0.001, static_cast<double>(config.yarn_high) - config.yarn_low);
      const double ramp = (static_cast<double>(i) - config.yarn_low) / width;
      mix = config.yarn_ext_factor * (1.0 - std::clamp(ramp, 0.0, 1.0));
    }
    const bool is_still = IsStillPair(config, static_cast<std::uint32_t>(i));
    frequencies_[i] = is_still ? 0.0 : interpolated * (1.0 - mix) + extrapolated * mix;
  }
}

void RopeTable::Fill(std::int64_t pos, float* cosine, float* sine) const {
  for (std::size_t i = 0; i < frequencies_.size(); ++i) {
    const double angle = static_cast<double>(pos) * frequencies_[i];
    cosine[i] = static_cast<float>(std::cos(angle) * attention_factor_);
    sine[i] = static_cast<float>(std::sin(angle) * attention_factor_);
  }
}

void RopeTable::FillDifference(const RopeTable& from_table, Pos from, Pos to, float* cosine,
                               float* sine) const {
  for (std::size_t i = 0; i < frequencies_.size(); ++i) {
    const double angle = to.value * frequencies_[i] - from.value * from_table.frequencies_[i];
    cosine[i] = static_cast<float>(std::cos(angle));
    sine[i] = static_cast<float>(std::sin(angle));
  }
}

// ---- model ropes
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
