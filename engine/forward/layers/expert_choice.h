// The router's choice: which experts process a token, and the weights of their results.
#pragma once

#include <cstdint>
#include <span>

#include "engine/forward/pass/expert_work.h"
#include "engine/model/expert_config.h"

namespace kvd {

// Chooses chosen.size() experts, the most probable first; of equally probable experts the expert
// with the lower number first. selection_bias: [count], added to the probabilities for the choice
// only, or null. `probabilities` and `selection` are scratch. The choice and the weights have the
// same bits on every machine. If a logit is NaN, the choice is arbitrary, but consists of valid
// experts. REQUIRES: logits, probabilities and selection have config.count elements, chosen
// config.used.
void ChooseExperts(const ExpertConfig& config, std::span<const float> logits,
                   const float* selection_bias, std::span<float> probabilities,
                   std::span<float> selection, std::span<ChosenExpert> chosen);

}  // namespace kvd
