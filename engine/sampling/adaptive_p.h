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

// Picks a candidate. A candidate of probability p has the logit 5 - 10 * d^2 / (1 + d) with
// d = |p - preferred| / 0.3 in the distribution that `uniform` draws from. Picked::share is the
// candidate's probability p in the list as it is given. REQUIRES: candidates is not empty.
Picked PickNear(std::span<const Candidate> candidates, double preferred, double uniform);

// Returns the adaptation after a token of probability `share` was drawn.
SamplerAdaptation AdaptedAverage(const SamplerAdaptation& adaptation, double share, float decay);

}  // namespace kvd
