// XTC, "exclude top choices" (p-e-w 2024): at some draws, the most likely tokens are removed, so
// that a less likely but still plausible token is drawn.
#pragma once

#include <vector>

#include "engine/sampling/candidates.h"

namespace kvd {

// If several candidates have a probability of at least `threshold`, removes all of them except the
// least likely one. The caller decides at which draws. REQUIRES: candidates is not empty;
// `threshold` is in [0, 0.5].
void ExcludeTopChoices(std::vector<Candidate>& candidates, float threshold);

}  // namespace kvd
