// Candidates: the tokens that may still be drawn, and the functions that reduce a list of
// candidates, which are the steps of the sampler.
//
// The functions work on a list that the caller owns and keep no state. All candidates have finite
// logits. Ties are resolved in favour of the lower token id, so that every result is unique.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/ids.h"

namespace kvd {

struct Candidate {
  float logit;
  TokenId token;
};

// Replaces `out` with the k candidates with the largest finite logits, most likely first.
// CollectTop makes one pass with a heap of k entries and takes O(vocabulary) time for a small k.
void CollectTop(std::span<const float> logits, std::size_t k, std::vector<Candidate>& out);

// Replaces `out` with all candidates with finite logits, in the order of their ids.
void CollectAll(std::span<const float> logits, std::vector<Candidate>& out);

// The following functions keep at least one candidate. REQUIRES: candidates is not empty; `share`
// is in (0, 1].

// Keeps the smallest set of most likely candidates that hold `share` of the candidates'
// probability.
void KeepTop(std::vector<Candidate>& candidates, double share);
// Locally typical sampling (Meister et al. 2022). Keeps the smallest set of candidates whose
// surprise -log p is nearest to the expected surprise and which together hold `share` of the
// probability.
void KeepTypical(std::vector<Candidate>& candidates, double share);
// Keeps the candidates that are at least `min_p` (in [0, 1]) times as likely as the most likely
// candidate.
void KeepMinShare(std::vector<Candidate>& candidates, float min_p);

// Returns the candidate at which the cumulative probability, at `temperature` (> 0), exceeds
// `uniform` (in [0, 1)).
TokenId Pick(std::span<const Candidate> candidates, float temperature, double uniform);

}  // namespace kvd
