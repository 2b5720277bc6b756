// The steps of a chain that keep no state: penalties, temperature, top-n-sigma and XTC.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling/candidates.h"
#include "shm/sampling_params.h"

namespace kvd {

// The penalties for tokens that occurred: the repeat penalty (Keskar et al. 2019, for logits of
// both signs as in llama.cpp), and the presence and the frequency penalty.

// Returns the penalised logit of a token that occurred `times` times; the result is limited to the
// range of finite floats. REQUIRES: times > 0; the logit is finite.
float PenalisedLogit(const SamplingParams& params, float logit, std::uint32_t times);

// Temperature: a logit divided by the temperature. A dynamic temperature follows the entropy of the
// candidates: low where the model is sure, high where it is not.

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

// Top-n-sigma (Tang et al. 2024): keeps the tokens whose logit is within n standard deviations of
// the largest logit. The kept set does not depend on the temperature.

// The standard deviation is that of the candidates' logits. Keeps at least one candidate. REQUIRES:
// candidates is not empty; n > 0 and finite.
void KeepTopNSigma(std::vector<Candidate>& candidates, float n);

// XTC, "exclude top choices" (p-e-w 2024): at some draws, the most likely tokens are removed, so
// that a less likely but still plausible token is drawn.

// If several candidates have a probability of at least `threshold`, removes all of them except the
// least likely one. The caller decides at which draws. REQUIRES: candidates is not empty;
// `threshold` is in [0, 0.5].
void ExcludeTopChoices(std::vector<Candidate>& candidates, float threshold);

}  // namespace kvd
