// SamplerScratch: the working memory of all samplers of one thread. It grows to the largest
// vocabulary and the longest history of these samplers, and then stays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "engine/sampling/candidates.h"
#include "engine/sampling/llama_candidates.h"

namespace kvd {

// A number for each token of the vocabulary, most of them 0. Clear takes time proportional to the
// number of tokens that have a number, not to the vocabulary.
class TokenNumbers {
 public:
  // REQUIRES: all numbers are 0.
  void Reserve(std::size_t vocab_size) {
    if (numbers_.size() < vocab_size) numbers_.resize(vocab_size);
  }
  // Returns the token's number, which the caller sets to a value above 0. REQUIRES: the token is in
  // the reserved vocabulary.
  std::uint32_t& Touch(TokenId token) {
    std::uint32_t& number = numbers_[static_cast<std::size_t>(token)];
    if (number == 0) touched_.push_back(token);
    return number;
  }
  std::uint32_t operator[](TokenId token) const {
    return numbers_[static_cast<std::size_t>(token)];
  }
  std::span<const TokenId> touched() const { return touched_; }
  void Clear() {
    for (const TokenId token : touched_) numbers_[static_cast<std::size_t>(token)] = 0;
    touched_.clear();
  }

 private:
  std::vector<std::uint32_t> numbers_;  // [vocab_size]
  std::vector<TokenId> touched_;
};

struct SamplerScratch {
  std::vector<float> logits;          // [vocab_size] adjusted logits
  TokenNumbers numbers;               // all zero between calls
  std::vector<Candidate> candidates;  // at most vocab_size
  LlamaCandidates llama;              // at most vocab_size
  // DRY's window, latest token first, and for each place in it the length of the repetition there.
  std::vector<TokenId> recent;
  std::vector<std::uint32_t> repeated;
};

inline SamplerScratch& ThreadScratch() {
  thread_local SamplerScratch scratch;
  return scratch;
}

}  // namespace kvd
