// Top-n-sigma (Tang et al. 2024): keeps the tokens whose logit is within n standard deviations of
// the largest logit. The kept set does not depend on the temperature.
#pragma once

#include <vector>

#include "engine/sampling/candidates.h"

namespace kvd {

// The standard deviation is that of the candidates' logits. Keeps at least one candidate. REQUIRES:
// candidates is not empty; n > 0 and finite.
void KeepTopNSigma(std::vector<Candidate>& candidates, float n);

}  // namespace kvd
