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
#include <utility>
#include <vector>

#include "base/ids.h"
#include "engine/sampling/sampler_scratch.h"
#include "shm/sampling_params.h"

namespace kvd {

// DryBreakers: the token sequences at which DRY stops looking for repetitions, such as the tokens
// of a line break.
//
// A breaker is a text. A token that contains the whole text is a breaker by itself. A token that
// ends with the beginning of the text is the head of a breaker; its tail is the tokens of the rest
// of the text. daemon/breaker_search.h finds both kinds in a vocabulary.
//
// A DryBreakers is immutable and may be used from any thread.
class DryBreakers {
 public:
  struct Head {
    TokenId token = 0;
    std::uint32_t tail = 0;  // index of the tail
    friend auto operator<=>(const Head&, const Head&) = default;
  };

  DryBreakers() = default;  // no breakers
  // `whole`: by token, whether the token contains a breaker; `heads`: their tails are indices of
  // `tails`.
  DryBreakers(std::vector<bool> whole, std::vector<Head> heads,
              std::vector<std::vector<TokenId>> tails);

  bool empty() const { return whole_.empty() && heads_.empty(); }
  bool IsBreaker(TokenId token) const {
    return static_cast<std::size_t>(token) < whole_.size() &&
           whole_[static_cast<std::size_t>(token)];
  }
  // Returns the number of latest tokens that precede no breaker: the number of tokens after the
  // last breaker in `recent` (latest token first), or recent.size() without a breaker.
  std::size_t TokensSince(std::span<const TokenId> recent) const;

 private:
  // Returns the number of tokens after the head of the longest breaker that begins with the token
  // at `place`; -1: no breaker begins there.
  std::ptrdiff_t TailAt(std::span<const TokenId> recent, std::size_t place) const;

  std::vector<bool> whole_;
  std::vector<Head> heads_;  // sorted
  std::vector<std::vector<TokenId>> tails_;
};

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
