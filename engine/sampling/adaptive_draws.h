// The draws that follow what was drawn before: mirostat and adaptive-p.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling/candidates.h"
#include "shm/sampling_params.h"

namespace kvd {

// Mirostat (Basu et al. 2021): draws tokens so that their mean surprise, -log2 p, approaches a
// target. `mu`, the largest surprise that is allowed, follows the surprise of the drawn tokens and
// is kept with the sequence.

// Version 1: estimates the exponent s of the candidates' Zipf distribution from the 100 most likely
// ones, and keeps the k most likely candidates (at least one, most likely first) with
// k = (e * 2^mu / (1 - vocab_size^-e))^(1/s) and e = s - 1.
// REQUIRES: candidates is not empty; mu is finite.
void KeepZipf(std::vector<Candidate>& candidates, float mu, std::uint32_t vocab_size);

// Version 2: keeps the candidates whose surprise is at most `mu`, and at least the most likely one.
// REQUIRES: candidates is not empty; mu is finite.
void KeepSurprise(std::vector<Candidate>& candidates, float mu);

// Returns mu after a token was drawn with probability `share` of the kept candidates:
// mu - eta * (-log2 share - tau). REQUIRES: share > 0.
float AdaptedMu(float mu, double share, float tau, float eta);

// Adaptive-p (llama.cpp, pull request 17927): draws tokens whose probability is near a target. The
// target of a draw makes up for the probabilities of the tokens drawn before; their average is kept
// with the sequence.

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
