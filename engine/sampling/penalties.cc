#include "engine/sampling/penalties.h"

#include <algorithm>
#include <limits>

namespace kvd {

float PenalisedLogit(const SamplingParams& params, float logit, std::uint32_t times) {
  logit = logit > 0 ? logit / params.repeat_penalty : logit * params.repeat_penalty;
  logit -= static_cast<float>(times) * params.frequency_penalty + params.presence_penalty;
  // A penalty near 0 may overflow the logit.
  return std::clamp(logit, std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max());
}

}  // namespace kvd
