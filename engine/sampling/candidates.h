// Candidates: the tokens that may still be drawn, and the functions that reduce a list of
// candidates, which are the steps of the sampler.
//
// The functions work on a list that the caller owns and keep no state. All candidates have finite
// logits. Ties are resolved in favour of the lower token id, so that every result is unique.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/ids.h"
#include "engine/forward/compute/portable_math.h"

namespace kvd {

// AllowedTokens: the tokens that a sampler may draw, as a view of a set that the caller owns (a
// TokenMask, for example).

// Either a list or bits; the other one is empty. Both empty: no token is allowed. REQUIRES: every
// token is in the sampler's vocabulary; the list is ascending; `bits` has [(vocabulary + 63) / 64]
// words.
struct AllowedTokens {
  std::span<const TokenId> list;
  std::span<const std::uint64_t> bits;  // bit t % 64 of word t / 64: token t is allowed

  bool IsList() const { return bits.empty(); }
  // REQUIRES: the token is in the sampler's vocabulary.
  bool Has(TokenId token) const {
    if (IsList()) return std::ranges::binary_search(list, token);
    const auto place = static_cast<std::size_t>(token);
    return (bits[place / 64] >> place % 64 & 1) != 0;
  }
};

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Candidate {
  float logit;
  TokenId token;
};

// A total order, so that every selection algorithm gives the same result.
inline bool IsLikelier(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

// The largest logit; -infinity if there is no candidate.
float MaxLogit(std::span<const Candidate> candidates);

// The probability of the candidate, not yet divided by the sum of all candidates' weights.
inline double Weight(const Candidate& candidate, float logit_max) {
  return PortableExp(candidate.logit - logit_max);
}
double TotalWeight(std::span<const Candidate> candidates, float logit_max);

// Replaces `out` with the k candidates with the largest finite logits, most likely first.
// CollectTop makes one pass with a heap of k entries and takes O(vocabulary) time for a small k.
void CollectTop(std::span<const float> logits, std::size_t k, std::vector<Candidate>& out);

// Replaces `out` with all candidates with finite logits, in the order of their ids.
void CollectAll(std::span<const float> logits, std::vector<Candidate>& out);

// The following functions keep at least one candidate. REQUIRES: candidates is not empty; `share`
// is in (0, 1]; k > 0.

// Keeps the k most likely candidates, most likely first.
void KeepLikeliest(std::vector<Candidate>& candidates, std::size_t k);

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

struct Picked {
  std::size_t index = 0;  // of the candidate in the list
  double share = 0;       // its probability
};

// Returns the candidate at which the cumulative probability exceeds `uniform` (in [0, 1)).
// `weight`: the probability of a candidate, times any constant. A candidate of weight 0 is not
// returned. REQUIRES: candidates is not empty; the sum of the weights is above 0.
template <class WeightOf>
Picked PickBy(std::span<const Candidate> candidates, const WeightOf& weight, double uniform) {
  double total = 0;
  for (const Candidate& candidate : candidates) total += weight(candidate);
  const double goal = uniform * total;
  double sum = 0;
  Picked last;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const double share = weight(candidates[i]);
    if (share == 0) continue;
    last = {.index = i, .share = share / total};
    sum += share;
    if (sum > goal) break;
  }
  return last;
}

// PickBy with the candidates' probabilities at `temperature` (> 0).
Picked Pick(std::span<const Candidate> candidates, float temperature, double uniform);

}  // namespace kvd
