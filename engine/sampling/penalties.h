// The penalties for tokens that occurred: the repeat penalty (Keskar et al. 2019, for logits of
// both signs as in llama.cpp), and the presence and the frequency penalty.
#pragma once

#include <cstdint>

#include "shm/sampling_params.h"

namespace kvd {

// Returns the penalised logit of a token that occurred `times` times; the result is limited to the
// range of finite floats. REQUIRES: times > 0; the logit is finite.
float PenalisedLogit(const SamplingParams& params, float logit, std::uint32_t times);

}  // namespace kvd
