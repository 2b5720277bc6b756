#include "engine/sampling/top_n_sigma.h"

#include <cmath>

namespace kvd {

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

}  // namespace kvd
