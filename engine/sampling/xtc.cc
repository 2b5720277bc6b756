#include "engine/sampling/xtc.h"

namespace kvd {

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
