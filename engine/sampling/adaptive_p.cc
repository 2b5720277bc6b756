#include "engine/sampling/adaptive_p.h"

#include <algorithm>
#include <cmath>

namespace kvd {
namespace {

constexpr double kWidth = 0.3;
constexpr double kSharpness = 10;

}  // namespace

double PreferredShare(float target, const SamplerAdaptation& adaptation) {
  const double wanted = std::clamp(double{target}, 0.0, 1.0);
  if (adaptation.adaptive_weight == 0) return wanted;
  const double average = double{adaptation.adaptive_sum} / adaptation.adaptive_weight;
  return std::clamp(2 * wanted - average, 0.0, 1.0);
}

// The constant 5 of the logit is the same for all candidates and cancels out. The penalty of the
// nearest candidate is subtracted instead, so that this candidate has the weight 1.
NearShares::NearShares(std::span<const Candidate> candidates, double preferred)
    : preferred_(preferred),
      logit_max_(MaxLogit(candidates)),
      total_(TotalWeight(candidates, logit_max_)),
      least_(Penalty(candidates.front())) {
  for (const Candidate& candidate : candidates) least_ = std::min(least_, Penalty(candidate));
}

double NearShares::Penalty(const Candidate& candidate) const {
  const double distance = std::fabs(Share(candidate) - preferred_) / kWidth;
  return kSharpness * distance * distance / (1 + distance);
}

SamplerAdaptation AdaptedAverage(const SamplerAdaptation& adaptation, double share, float decay) {
  SamplerAdaptation adapted = adaptation;
  adapted.adaptive_sum = static_cast<float>(share + double{decay} * adaptation.adaptive_sum);
  adapted.adaptive_weight = 1 + decay * adaptation.adaptive_weight;
  return adapted;
}

}  // namespace kvd
