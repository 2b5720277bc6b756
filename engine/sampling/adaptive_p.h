// Adaptive-p (llama.cpp, pull request 17927): draws tokens whose probability is near a target. The
// target of a draw makes up for the probabilities of the tokens drawn before; their average is kept
// with the sequence.
#pragma once

#include <span>

#include "engine/sampling/candidates.h"
#include "shm/sampling_params.h"

namespace kvd {

// Returns the probability that the next draw prefers: 2 * target minus the average of the drawn
// tokens' probabilities, within [0, 1].
double PreferredShare(float target, const SamplerAdaptation& adaptation);

// The distribution from which adaptive-p draws. A candidate of probability p has the logit
// 5 - 10 * d^2 / (1 + d) with d = |p - preferred| / 0.3. The candidates outlive the object and do
// not change.
class NearShares {
 public:
  // REQUIRES: candidates is not empty.
  NearShares(std::span<const Candidate> candidates, double preferred);

  // The probability of the candidate among the candidates as they are given.
  double Share(const Candidate& candidate) const { return Weight(candidate, logit_max_) / total_; }
  // The probability with which the candidate is drawn, not yet divided by the sum.
  double operator()(const Candidate& candidate) const {
    return PortableExp(static_cast<float>(least_ - Penalty(candidate)));
  }

 private:
  double Penalty(const Candidate& candidate) const;

  const double preferred_;
  const float logit_max_;
  const double total_;
  double least_;
};

// Returns the adaptation after a token of probability `share` was drawn.
SamplerAdaptation AdaptedAverage(const SamplerAdaptation& adaptation, double share, float decay);

}  // namespace kvd
