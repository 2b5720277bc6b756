// Sampler::Working: the logits while the chain changes them: a row with all tokens, until the first
// sampler that chooses among the tokens makes candidates of them. Only the sampler's own files
// include this header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/error.h"
#include "engine/sampling/candidates.h"
#include "engine/sampling/llama_candidates.h"
#include "engine/sampling/sampler.h"
#include "engine/sampling/sampler_scratch.h"

namespace kvd {

struct Sampler::Working {
  std::span<const float> row;
  SamplerScratch& scratch;
  bool has_candidates = false;
  float temperature = 1;  // that the draw applies
  const AllowedTokens* allowed = nullptr;
  // With llama.cpp's draws: the candidates, in place of candidates(), once has_candidates is true.
  LlamaCandidates* llama = nullptr;
  std::uint32_t xtc_draw_count = 0;  // llama.cpp's draws: number of XTC's draws

  std::vector<Candidate>& candidates() { return scratch.candidates; }

  // Makes a copy of the row, which may then be changed, if there is none yet.
  std::span<float> OwnRow() {
    if (row.data() != scratch.logits.data()) {
      scratch.logits.assign(row.begin(), row.end());
      row = scratch.logits;
    }
    return scratch.logits;
  }
  // Makes candidates of the row: all tokens with finite logits, or the k most likely ones.
  Status Collect(std::size_t k = 0) {
    if (has_candidates) return {};
    if (k > 0)
      CollectTop(row, k, candidates());
    else
      CollectAll(row, candidates());
    has_candidates = true;
    return RequireCandidates();
  }
  Status RequireCandidates() {
    if (llama != nullptr ? llama->MaxLogit() > -kInfinity : !candidates().empty()) return {};
    if (allowed != nullptr)
      return Fail(Code::kNotFound, "logits: no token of the allowed set has a finite logit");
    return Fail(Code::kNumerical, "logits: no allowed token has a finite logit");
  }
  // Replaces the logit of each token whose number in scratch.numbers is not 0 by
  // change(logit, number), and clears the numbers.
  template <class Change>
  void ChangeNumbered(const Change& change) {
    TokenNumbers& numbers = scratch.numbers;
    if (has_candidates && llama != nullptr) {
      llama->ChangeLogits([&](LlamaCandidate& candidate) {
        if (const std::uint32_t number = numbers[candidate.token])
          candidate.logit = change(candidate.logit, number);
      });
    } else if (has_candidates) {
      for (Candidate& candidate : candidates())
        if (const std::uint32_t number = numbers[candidate.token])
          candidate.logit = change(candidate.logit, number);
    } else if (!numbers.touched().empty()) {
      const std::span<float> own = OwnRow();
      for (const TokenId token : numbers.touched()) {
        float& logit = own[static_cast<std::size_t>(token)];
        if (logit != -kInfinity) logit = change(logit, numbers[token]);
      }
    }
    numbers.Clear();
  }
};

}  // namespace kvd
