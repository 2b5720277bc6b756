// The tokens that may still be sampled, and the cuts that narrow them: the leaves of the sampler.
//
// Functions on a list that the caller owns; no state. Candidates are finite; where two are equally
// good the lower id comes first, so that every result is unique.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "shm/ids.h"

namespace kvd {

struct Candidate {
  float logit;
  TokenId token;
};

// Replaces `out` with the k candidates of the largest finite logits, most likely first. One pass
// and a heap of k: O(vocabulary) for a small k.
void CollectTop(std::span<const float> logits, std::size_t k, std::vector<Candidate>& out);

// Replaces `out` with all that are finite, in the order of their ids.
void CollectAll(std::span<const float> logits, std::vector<Candidate>& out);

// Each keeps at least one. REQUIRES: candidates is not empty; share in (0, 1].

// The fewest most likely ones that hold `share` of the candidates' probability.
void KeepTop(std::vector<Candidate>& candidates, double share);
// Locally typical sampling (Meister et al. 2022): those whose surprise -log p is nearest to its
// expectation, until they hold `share`.
void KeepTypical(std::vector<Candidate>& candidates, double share);
// Those at least `min_p` (in [0, 1]) times as likely as the most likely one.
void KeepMinShare(std::vector<Candidate>& candidates, float min_p);

// The candidate at `uniform` (in [0, 1)) of the summed probability at this temperature (> 0).
TokenId Pick(std::span<const Candidate> candidates, float temperature, double uniform);

}  // namespace kvd
