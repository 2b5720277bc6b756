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

// The constant 5 of the logit is the same for all candidates and cancels out. The distance of the
// nearest candidate is subtracted instead, so that this candidate has the weight 1.
Picked PickNear(std::span<const Candidate> candidates, double preferred, double uniform) {
  const float logit_max = MaxLogit(candidates);
  const double total = TotalWeight(candidates, logit_max);
  const auto penalty = [=](const Candidate& candidate) {
    const double distance = std::fabs(Weight(candidate, logit_max) / total - preferred) / kWidth;
    return kSharpness * distance * distance / (1 + distance);
  };
  double least = penalty(candidates.front());
  for (const Candidate& candidate : candidates) least = std::min(least, penalty(candidate));
  Picked picked = PickBy(
      candidates,
      [&](const Candidate& candidate) -> double {
        return PortableExp(static_cast<float>(least - penalty(candidate)));
      },
      uniform);
  picked.share = Weight(candidates[picked.index], logit_max) / total;
  return picked;
}

SamplerAdaptation AdaptedAverage(const SamplerAdaptation& adaptation, double share, float decay) {
  SamplerAdaptation adapted = adaptation;
  adapted.adaptive_sum = static_cast<float>(share + double{decay} * adaptation.adaptive_sum);
  adapted.adaptive_weight = 1 + decay * adaptation.adaptive_weight;
  return adapted;
}

}  // namespace kvd
