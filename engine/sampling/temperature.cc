#include "engine/sampling/temperature.h"

#include <algorithm>
#include <limits>

#include "engine/sampling/portable_math.h"

namespace kvd {

// With weights w = e^(logit - largest logit) and their sum W, the entropy is
// log W - sum of w * (logit - largest logit) / W.
float DynamicTemperature(std::span<const Candidate> candidates, float temperature, float range,
                         float exponent) {
  if (range <= 0 || candidates.size() < 2) return temperature;
  const float logit_max = MaxLogit(candidates);
  double total = 0;
  double weighted = 0;
  for (const Candidate& candidate : candidates) {
    const double weight = Weight(candidate, logit_max);
    if (weight == 0) continue;
    total += weight;
    weighted += weight * (double{candidate.logit} - logit_max);
  }
  const double entropy = PortableLog(total) - weighted / total;
  const double entropy_max = PortableLog(static_cast<double>(candidates.size()));
  const double part = std::clamp(entropy / entropy_max, 0.0, 1.0);
  const double low = std::max(0.0, double{temperature} - range);
  const double high = double{temperature} + range;
  const double chosen = low + (high - low) * PortablePow(part, exponent);
  return static_cast<float>(
      std::min(chosen, static_cast<double>(std::numeric_limits<float>::max())));
}

void ScaleLogits(std::vector<Candidate>& candidates, float temperature) {
  if (temperature == 0) return KeepLikeliest(candidates, 1);
  for (Candidate& candidate : candidates) {
    candidate.logit =
        std::clamp(candidate.logit / temperature, std::numeric_limits<float>::lowest(),
                   std::numeric_limits<float>::max());
  }
}

}  // namespace kvd
