// Temperature: a logit divided by the temperature. A dynamic temperature follows the entropy of the
// candidates: low where the model is sure, high where it is not.
#pragma once

#include <span>
#include <vector>

#include "engine/sampling/candidates.h"

namespace kvd {

// Returns low + (high - low) * (H / log n)^exponent, where H is the entropy of the n candidates,
// low = max(0, temperature - range) and high = temperature + range. Returns `temperature` for a
// single candidate or a range of 0. REQUIRES: candidates is not empty; the numbers are finite and
// at least 0.
float DynamicTemperature(std::span<const Candidate> candidates, float temperature, float range,
                         float exponent);

// Divides the logits by the temperature; quotients outside the range of finite floats become the
// largest or lowest finite float. At temperature 0, only the most likely candidate is kept.
// REQUIRES: candidates is not empty; temperature >= 0.
void ScaleLogits(std::vector<Candidate>& candidates, float temperature);

}  // namespace kvd
