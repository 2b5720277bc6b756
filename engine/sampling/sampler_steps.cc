#include "engine/sampling/sampler_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/forward/compute/portable_math.h"

namespace kvd {

// ---- penalties
float PenalisedLogit(const SamplingParams& params, float logit, std::uint32_t times) {
  logit = logit > 0 ? logit / params.repeat_penalty : logit * params.repeat_penalty;
  logit -= static_cast<float>(times) * params.frequency_penalty + params.presence_penalty;
  // A penalty near 0 may overflow the logit.
  return std::clamp(logit, std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max());
}

// ---- temperature

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

// ---- top n sigma
void KeepTopNSigma(std::vector<Candidate>& candidates, float n) {
  const auto count = static_cast<double>(candidates.size());
  double sum = 0;
  for (const Candidate& candidate : candidates) sum += candidate.logit;
  const double mean = sum / count;
  double squares = 0;
  for (const Candidate& candidate : candidates) {
    const double distance = candidate.logit - mean;
    squares += distance * distance;
  }
  const double least = MaxLogit(candidates) - n * std::sqrt(squares / count);
  std::erase_if(candidates,
                [least](const Candidate& candidate) { return candidate.logit < least; });
}

// ---- xtc

// Candidates that are as likely as the threshold or likelier come first in the order IsLikelier, so
// the last of them in that order is the least likely one.
void ExcludeTopChoices(std::vector<Candidate>& candidates, float threshold) {
  const float logit_max = MaxLogit(candidates);
  const double least = threshold * TotalWeight(candidates, logit_max);
  const Candidate* last = nullptr;
  for (const Candidate& candidate : candidates) {
    if (Weight(candidate, logit_max) < least) continue;
    if (last == nullptr || IsLikelier(*last, candidate)) last = &candidate;
  }
  if (last == nullptr) return;
  const Candidate kept = *last;
  std::erase_if(candidates,
                [kept](const Candidate& candidate) { return IsLikelier(candidate, kept); });
}

}  // namespace kvd
