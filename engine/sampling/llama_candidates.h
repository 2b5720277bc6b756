// LlamaCandidates: the tokens that may still be drawn, with llama.cpp's arithmetic, so that equal
// logits and equal random numbers give llama.cpp's token (SamplerOptions::llama_draws).
//
// Logits, shares and their sums are floats, added in the order of the list; exponentials and
// logarithms are those of the machine's math library. Tokens that are excluded by the logit
// -infinity stay in the list with the share 0, where llama.cpp keeps them. The list is in the order
// of the ids until a sampler sorts it; among equal logits the lowest id comes first (in llama.cpp,
// the order of equal logits is that of its sorting algorithm).
//
// A LlamaCandidates is part of a thread's working memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "engine/sampling/candidates.h"
#include "shm/sampling_params.h"

namespace kvd {

struct LlamaCandidate {
  float logit;
  TokenId token;
  float share;        // probability among the candidates; set by SetShares and Pick
  float plain_share;  // adaptive-p: the share before PreferNear
};

class LlamaCandidates {
 public:
  // Replaces the list with all tokens of the row, or with its k likeliest ones. `working` is
  // overwritten. REQUIRES: k > 0.
  void TakeAll(std::span<const float> row);
  void TakeTop(std::span<const float> row, std::size_t k, std::vector<Candidate>& working);

  std::span<const LlamaCandidate> list() const { return list_; }
  // Calls change(candidate) for each candidate; the list then counts as unsorted.
  template <class Change>
  void ChangeLogits(const Change& change) {
    for (LlamaCandidate& candidate : list_) change(candidate);
    is_sorted_ = false;
  }
  // The largest logit; -infinity if no token may be drawn.
  float MaxLogit() const;

  // The samplers, with the parameters of SamplingParams. REQUIRES: the list is not empty.
  void KeepTopNSigma(float n);
  void KeepLikeliest(std::size_t k);
  void KeepTypical(float share);
  void KeepTop(float share);
  void KeepMinShare(float min_p);
  void ExcludeTopChoices(float threshold);
  void Scale(float temperature);
  void ScaleByEntropy(float temperature, float range, float exponent);
  // Mirostat 1 and 2; both set the shares.
  void KeepZipf(float mu, std::uint32_t vocab_size);
  void KeepSurprise(float mu);
  // Adaptive-p: sets plain_share, and the shares with which it draws. `preferred`: the share that
  // adaptive-p prefers.
  void PreferNear(float preferred);

  void SetShares(bool sorts);

  // Returns the index of the first candidate at which the sum of the weights e^(logit - largest
  // logit) reaches `uniform` times their total, and sets `share` to the weights.
  std::size_t Pick(double uniform);
  // Returns the index that std::discrete_distribution of the shares gives for `uniform`.
  std::size_t PickByShare(double uniform) const;

 private:
  // Sorts the k likeliest candidates to the front, and drops the others.
  void Sort(std::size_t k);

  std::vector<LlamaCandidate> list_;
  bool is_sorted_ = false;
};

}  // namespace kvd
