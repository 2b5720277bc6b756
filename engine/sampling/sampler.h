// Sampler: draws the next token of one sequence from a row of logits.
//
// Biases come first. The samplers of the chain follow in the chain's order (shm/sampler_chain.h;
// docs/sampling.md describes each of them), and the last step draws a token from the probabilities
// of the remaining candidates. Mirostat replaces the chain: biases, temperature, mirostat.
// Temperature 0 (IsGreedy) selects the most likely token after biases, penalties and DRY, and the
// lowest id among equals.
//
// One request owns a sampler. A sampler is not thread-safe; different samplers may run on different
// threads. Working memory (at most 20 bytes per vocabulary entry, and 8 bytes per token of DRY's
// window) belongs to the calling thread, and all samplers that run on the thread share it. A
// Sampler itself is therefore small. After a thread's first sample, no memory is allocated per
// token, except that the history and DRY's window grow with the sequence if `repeat_last` or
// `dry_penalty_last` is -1.
//
// The same seed, logits, history and adaptation give the same tokens on every machine and with
// every compiler, because the generator, the exponential and the logarithm are implemented here,
// and sums are computed in a fixed order of additions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "engine/sampling/allowed_tokens.h"
#include "engine/sampling/candidates.h"
#include "engine/sampling/dry_breakers.h"
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
  // DRY's breakers as texts; nullopt: the default ones. At most wire::kBreakersMax.
  std::optional<std::vector<std::string>> breakers{};
};

// Errors: kInvalidArgument, with the first field that is out of range, its value and the limit.
Status ValidateSampler(const SamplerOptions& options, std::uint32_t vocab_size);

// What the draws have changed.
struct SamplerProgress {
  // Number of draws; draw n depends on the seed and n only (sampler.cc).
  std::uint64_t draw_count = 0;
  SamplerAdaptation adaptation{};
  SamplerAdaptation adaptation_before{};  // before the last draw
};

// The state that a Sampler needs, in addition to its options, to resume.
struct SamplerState : SamplerProgress {
  // The last accepted tokens, which penalties and DRY consider. When full, `history` is a ring
  // buffer.
  std::vector<TokenId> history;
  std::uint64_t history_begin = 0;  // index in `history` of the oldest token
};

struct SampledToken {
  TokenId token = 0;
  float logprob = 0.0f;  // natural logarithm, in the distribution of top_logprobs()
};

struct TokenShare {
  TokenId token = 0;
  double share = 0;  // probability
};

class Sampler {
 public:
  // `end_tokens`: the model's end-of-generation tokens; only `ignore_eos` uses them. Errors: as
  // ValidateSampler; kInvalidArgument (an end token is outside the vocabulary, or all tokens are
  // forbidden).
  static Result<Sampler> Create(const SamplerOptions& options, std::uint32_t vocab_size,
                                std::span<const TokenId> end_tokens);

  // Sets the token sequences of DRY's breakers; without them, DRY has no breakers. The texts of
  // options().breakers are not used.
  void SetBreakers(std::shared_ptr<const DryBreakers> breakers) { breakers_ = std::move(breakers); }

  // Adds a token to the history that penalties and DRY consider. The caller passes all tokens in
  // order: those of the prompt and each sampled one (Sample does not add it). Accept has no effect
  // if neither a penalty nor DRY is on. REQUIRES: `token` is in the vocabulary.
  void Accept(TokenId token);

  // Draws a token. `allowed`: the tokens that may be drawn, as if all others had the logit
  // -infinity before biases; null: all. Equal sets give equal tokens, as a list or as bits. Errors:
  // kNumerical (a logit is NaN or +infinity, or no token has a finite logit); kNotFound (no token
  // of `allowed` has a finite logit after biases); the draw count is then unchanged. REQUIRES:
  // logits.size() == vocab_size.
  //
  // A list without logprobs takes time proportional to the list: logits outside the list are then
  // not read, and the logprob of the drawn token is 0.
  Result<SampledToken> Sample(std::span<const float> logits,
                              const AllowedTokens* allowed = nullptr);

  // Returns the tokens that the next Sample of these logits may draw, and their probabilities. The
  // tokens have no particular order. Errors and REQUIRES: those of Sample, but the logits must not
  // have NaN or +infinity.
  Result<std::vector<TokenShare>> NextShares(std::span<const float> logits,
                                             const AllowedTokens* allowed = nullptr) const;

  // Counts one draw without drawing, for a token that is already known because the draw of the same
  // seed and number chose it earlier. The adaptation does not change.
  void SkipDraw() {
    if (!IsGreedy(options_.sampling)) ++state_.draw_count;
  }

  // Counts one draw and adapts as the draw of `token` from `logits` would, for a token that is
  // already known, before the token is accepted. A token that could not be drawn from these logits
  // adapts nothing. Errors and REQUIRES: those of Sample.
  Status Adopt(std::span<const float> logits, TokenId token,
               const AllowedTokens* allowed = nullptr);

  // The `logprob_count` most likely tokens of the last sampled row and their log-probabilities:
  // most likely first, lowest id first among equals. The log-probabilities are the log-softmax of
  // the logits given to Sample, before biases, penalties, truncation and temperature. Valid until
  // the next Sample.
  std::span<const wire::TokenLogprob> top_logprobs() const { return top_logprobs_; }

  // Sets the adaptation after the tokens that were drawn earlier, and before the last of them.
  void SetAdaptation(const SamplerAdaptation& adaptation, const SamplerAdaptation& before) {
    state_.adaptation = adaptation;
    state_.adaptation_before = before;
  }
  // Sets what the draws have changed to an earlier value, so that the draws since then are
  // repeated.
  void SetProgress(const SamplerProgress& progress) {
    static_cast<SamplerProgress&>(state_) = progress;
  }
  // Sets the number of draws to `draw_count`. REQUIRES: no token was drawn yet.
  void SkipDraws(std::uint64_t draw_count) { state_.draw_count = draw_count; }

  const SamplerState& state() const { return state_; }
  const SamplerOptions& options() const { return options_; }

 private:
  // The logits while the chain changes them: a row with all tokens, until the first sampler that
  // chooses among the tokens makes candidates of them.
  struct Working;

  Sampler(const SamplerOptions& options, std::uint32_t vocab_size, std::vector<TokenId> forbidden);
  // Errors: those of Sample for the logits that may be drawn.
  Status CheckLogits(std::span<const float> logits, const AllowedTokens* allowed) const;
  Status Apply(SamplerKind kind, Working& working) const;
  Status Restrict(Working& working) const;
  void Bias(Working& working) const;
  void Penalise(Working& working) const;
  void PenaliseRepeated(Working& working) const;
  void ApplyTemperature(Working& working) const;
  Status Prepare(Working& working) const;
  Result<TokenId> Draw(std::span<const float> logits, const AllowedTokens* allowed);
  void Adapt(double share);
  // The latest accepted token is number 0. REQUIRES: back < history.size().
  TokenId Recent(std::size_t back) const;
  double NextUniform();

  SamplerOptions options_;
  std::uint32_t vocab_size_;
  std::vector<TokenId> forbidden_;  // end tokens, if ignore_eos is set
  // The samplers of the chain that are on, except one that draws; kNone after the last one.
  SamplerChain active_{};
  std::shared_ptr<const DryBreakers> breakers_;
  SamplerState state_;
  std::vector<wire::TokenLogprob> top_logprobs_;
};

}  // namespace kvd
