// DRY, "don't repeat yourself" (p-e-w 2024): lowers the logits of tokens that would continue a
// repetition of earlier tokens.
//
// If the last n tokens also occur earlier, followed by a token t, then t would make a repetition of
// n + 1 tokens. For the largest such n that is at least allowed_length, the logit of t is lowered
// by multiplier * base^(n - allowed_length). A repetition does not reach across a breaker, and a
// token that is a breaker by itself is not penalised.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "engine/sampling/dry_breakers.h"
#include "engine/sampling/sampler_scratch.h"
#include "shm/sampling_params.h"

namespace kvd {

// Replaces `lengths` with the number of latest tokens that also end at each place of `recent`
// (latest token first): recent[place + i] == recent[i] for all i < lengths[place]. lengths[0] is
// recent.size(). Takes O(recent.size()) time (the Z-algorithm).
void FindRepetitions(std::span<const TokenId> recent, std::vector<std::uint32_t>& lengths);

// Sets the number of each token that DRY penalises to 1 + the length of the longest repetition that
// the token would continue, in scratch.numbers. Reads the window, latest token first, from
// scratch.recent. REQUIRES: all numbers are 0.
void FindContinuations(const SamplingParams& params, const DryBreakers& breakers,
                       SamplerScratch& scratch);

// Returns the penalty for a number that FindContinuations has set. The exponent is limited to
// log(largest float) / log(base).
double DryPenalty(const SamplingParams& params, std::uint32_t number);

}  // namespace kvd
