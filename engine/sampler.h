// Draws the next token of one sequence from a row of logits.
//
// The chain, in llama.cpp's default order: biases, penalties, top-k, locally typical, top-p, min-p,
// temperature, draw. Temperature 0 takes the most likely token after biases and penalties; of
// equals the lowest id.
//
// Owner: one request. Not thread-safe; different samplers may run on different threads. Working
// memory (at most 20 bytes per vocabulary entry) belongs to the calling thread and is shared by all
// samplers that run on it, so a Sampler itself is small, and nothing is allocated per token once a
// thread has sampled (but the history that `repeat_last` = -1 keeps grows with the sequence).
//
// The same seed, logits and history give the same tokens on every machine and with every compiler:
// the generator and the exponential are our own, and sums are taken in one order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shm/error.h"
#include "shm/ids.h"
#include "shm/sampling_params.h"
#include "shm/wire_generate.h"

namespace kvd {

struct SamplerOptions {
  SamplingParams sampling = kPlainSampling;
  std::uint64_t seed = 0;               // used as it is: drawing one for "0" is the caller's
  std::uint32_t logprob_count = 0;      // length of top_logprobs(), at most wire::kLogprobsMax
  bool ignore_eos = false;              // end tokens are never sampled
  std::vector<wire::LogitBias> biases;  // at most wire::kBiasesMax; biases of one token add up
};

// Names the first field out of its range, with the number and the limit (kInvalidArgument).
Status ValidateSampler(const SamplerOptions& options, std::uint32_t vocab_size);

// What a Sampler must remember to go on where it was, beside its parameters.
struct SamplerState {
  std::uint64_t draw_count = 0;     // draw n of a seed is a function of seed and n: sampler.cc
  std::vector<TokenId> history;     // accepted tokens that penalties look at; a ring once full
  std::uint64_t history_begin = 0;  // index of the oldest
};

struct SampledToken {
  TokenId token = 0;
  float logprob = 0.0f;  // natural logarithm, of the distribution that top_logprobs() describes
};

class Sampler {
 public:
  // `end_tokens`: the model's end-of-generation tokens, used by `ignore_eos` only. Errors:
  // ValidateSampler's; kInvalidArgument when an end token is outside the vocabulary or when no
  // token is left that may be sampled.
  static Result<Sampler> Create(const SamplerOptions& options, std::uint32_t vocab_size,
                                std::span<const TokenId> end_tokens);

  // Adds a token to the history that the penalties look at: the prompt's and each sampled one, in
  // order. Sample does not do it by itself. Free when no penalty is on.
  // REQUIRES: a token of the vocabulary.
  void Accept(TokenId token);

  // Draws a token. Error: kNumerical when a logit is NaN or +infinity or no allowed token's is
  // finite; nothing is drawn then. REQUIRES: logits.size() == vocab_size.
  Result<SampledToken> Sample(std::span<const float> logits);

  // As if a token had been drawn: one that is known from before, when a draw of the same seed and
  // number chose it.
  void SkipDraw() {
    if (options_.sampling.temperature != 0) ++state_.draw_count;
  }

  // The `logprob_count` most likely tokens of the last sampled row and their log-probabilities,
  // most likely first, of equals the lowest id first. Log-softmax of the logits as given to Sample:
  // before biases, penalties, truncation and temperature. Valid until the next Sample.
  std::span<const wire::TokenLogprob> top_logprobs() const { return top_logprobs_; }

  // As if it had drawn that many tokens already. REQUIRES: none was drawn yet.
  void SkipDraws(std::uint64_t draw_count) { state_.draw_count = draw_count; }

  const SamplerState& state() const { return state_; }
  const SamplerOptions& options() const { return options_; }

 private:
  Sampler(const SamplerOptions& options, std::uint32_t vocab_size, std::vector<TokenId> forbidden);
  std::span<const float> Adjust(std::span<const float> logits) const;
  void Penalise(std::span<float> logits) const;
  Result<TokenId> Draw(std::span<const float> logits);
  double NextUniform();

  SamplerOptions options_;
  std::uint32_t vocab_size_;
  std::vector<TokenId> forbidden_;  // end tokens under ignore_eos
  SamplerState state_;
  std::vector<wire::TokenLogprob> top_logprobs_;
};

}  // namespace kvd
