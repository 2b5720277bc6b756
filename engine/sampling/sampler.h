// Sampler: draws the next token of one sequence from a row of logits.
//
// The steps of a sampler are, in llama.cpp's default order: biases, penalties, top-k, locally
// typical, top-p, min-p, temperature, draw. Temperature 0 selects the most likely token after
// biases and penalties, and the lowest id among equals.
//
// One request owns a sampler. A sampler is not thread-safe; different samplers may run on different
// threads. Working memory (at most 20 bytes per vocabulary entry) belongs to the calling thread,
// and all samplers that run on the thread share it. A Sampler itself is therefore small. After a
// thread's first sample, no memory is allocated per token, except that the history grows with the
// sequence if `repeat_last` is -1.
//
// The same seed, logits and history give the same tokens on every machine and with every compiler,
// because the generator and the exponential are implemented here, and sums are computed in a fixed
// order of additions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "shm/sampling_params.h"
#include "shm/wire_generate.h"

namespace kvd {

struct SamplerOptions {
  SamplingParams sampling = kPlainSampling;
  std::uint64_t seed = 0;  // used unchanged; the caller replaces 0 by a random seed if it wants one
  std::uint32_t logprob_count = 0;  // length of top_logprobs(), at most wire::kLogprobsMax
  bool ignore_eos = false;          // end tokens are never sampled
  // At most wire::kBiasesMax; several biases of one token are added.
  std::vector<wire::LogitBias> biases;
};

// Errors: kInvalidArgument, with the first field that is out of range, its value and the limit.
Status ValidateSampler(const SamplerOptions& options, std::uint32_t vocab_size);

// The state that a Sampler needs, in addition to its options, to resume.
struct SamplerState {
  // Number of draws; draw n depends on the seed and n only (sampler.cc).
  std::uint64_t draw_count = 0;
  // The last accepted tokens, which penalties consider. When full, `history` is a ring buffer.
  std::vector<TokenId> history;
  std::uint64_t history_begin = 0;  // index in `history` of the oldest token
};

struct SampledToken {
  TokenId token = 0;
  float logprob = 0.0f;  // natural logarithm, in the distribution of top_logprobs()
};

class Sampler {
 public:
  // `end_tokens`: the model's end-of-generation tokens; only `ignore_eos` uses them. Errors: as
  // ValidateSampler; kInvalidArgument (an end token is outside the vocabulary, or all tokens are
  // forbidden).
  static Result<Sampler> Create(const SamplerOptions& options, std::uint32_t vocab_size,
                                std::span<const TokenId> end_tokens);

  // Adds a token to the history that penalties consider. The caller passes all tokens in order:
  // those of the prompt and each sampled one (Sample does not add it). Accept has no effect if no
  // penalty is set. REQUIRES: `token` is in the vocabulary.
  void Accept(TokenId token);

  // Draws a token. Errors: kNumerical (a logit is NaN or +infinity, or no allowed token has a
  // finite logit); the draw count is then unchanged. REQUIRES: logits.size() == vocab_size.
  Result<SampledToken> Sample(std::span<const float> logits);

  // Counts one draw without drawing, for a token that is already known because the draw of the same
  // seed and number chose it earlier.
  void SkipDraw() {
    if (options_.sampling.temperature != 0) ++state_.draw_count;
  }

  // The `logprob_count` most likely tokens of the last sampled row and their log-probabilities:
  // most likely first, lowest id first among equals. The log-probabilities are the log-softmax of
  // the logits given to Sample, before biases, penalties, truncation and temperature. Valid until
  // the next Sample.
  std::span<const wire::TokenLogprob> top_logprobs() const { return top_logprobs_; }

  // Sets the number of draws to `draw_count`. REQUIRES: no token was drawn yet.
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
  std::vector<TokenId> forbidden_;  // end tokens, if ignore_eos is set
  SamplerState state_;
  std::vector<wire::TokenLogprob> top_logprobs_;
};

}  // namespace kvd
