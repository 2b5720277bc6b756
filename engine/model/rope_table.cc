#include "engine/model/rope_table.h"

#include <algorithm>
#include <cmath>

namespace kvd {

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

}  // namespace kvd
