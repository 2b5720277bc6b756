// Sampler: draws the next token of one sequence from a row of logits.
//
// Biases come first. The samplers of the chain follow in the chain's order (shm/sampler_chain.h;
// docs/sampling.md describes each of them), and the last step draws a token from the probabilities
// of the remaining candidates. Mirostat replaces the chain: biases, temperature, mirostat.
// Temperature 0 (IsGreedy) selects the most likely token after biases, penalties and DRY, and the
// lowest id among equals.
//
// One request owns a sampler. A sampler is not thread-safe; different samplers may run on different
// threads. Working memory (at most 36 bytes per vocabulary entry, and 8 bytes per token of DRY's
// window) belongs to the calling thread, and all samplers that run on the thread share it. A
// Sampler itself is therefore small. After a thread's first sample, no memory is allocated per
// token, except that the history and DRY's window grow with the sequence if `repeat_last` or
// `dry_penalty_last` is -1.
//
// The same seed, logits, history and adaptation give the same tokens on every machine and with
// every compiler, because the generator, the exponential and the logarithm are implemented here,
// and sums are computed in a fixed order of additions.
//
// With SamplerOptions::llama_draws, a sampler has llama.cpp's generator, arithmetic and order
// instead: equal logits, history and seed give llama.cpp's tokens. The exponential and the
// logarithm are then those of the machine's math library.
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
#include "engine/sampling/candidates.h"
#include "engine/sampling/dry.h"
#include "engine/sampling/llama_candidates.h"
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
  // True: tokens are drawn as llama.cpp draws them; of the seed, only the low 32 bits are used.
  bool llama_draws = false;
};

// Errors: kInvalidArgument, with the first field that is out of range, its value and the limit.
Status ValidateSampler(const SamplerOptions& options, std::uint32_t vocab_size);

// What the draws have changed.
struct SamplerProgress {
  // Number of draws; draw n depends on the seed and n only (sampler.cc).
  std::uint64_t draw_count = 0;
  SamplerAdaptation adaptation{};
  SamplerAdaptation adaptation_before{};  // before the last draw

  // llama.cpp's draws: a token takes draw_last draws, 0 to 2 of them, and XTC, which has its own
  // numbers, takes xtc_draw_last. The counts include those of the last token.
  std::uint32_t xtc_draw_count = 0;
  std::uint32_t draw_last = 0;
  std::uint32_t xtc_draw_last = 0;
};
// Largest draw_count and xtc_draw_count with which llama.cpp's draws may resume: the generator has
// no shorter way to a draw than through the earlier ones, which takes 0.3 s for these.
inline constexpr std::uint64_t kLlamaDrawsMax = 1u << 26;
// Errors: kInvalidArgument (a count is above the limit, or cannot be one of a sampler's).
Status ValidateLlamaDraws(const SamplerProgress& progress);

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
  //
  // With llama_draws, a token is drawn among all tokens first, and if it is not in `allowed`, a
  // token is drawn among the allowed ones with the next random number.
  Result<SampledToken> Sample(std::span<const float> logits,
                              const AllowedTokens* allowed = nullptr);

  // Returns the tokens that the next Sample of these logits may draw, and their probabilities. The
  // tokens have no particular order. Errors and REQUIRES: those of Sample, but the logits must not
  // have NaN or +infinity.
  Result<std::vector<TokenShare>> NextShares(std::span<const float> logits,
                                             const AllowedTokens* allowed = nullptr) const;

  // Counts one draw without drawing, for a token that is already known because the draw of the same
  // seed and number chose it earlier. The adaptation does not change.
  // With llama_draws, a token without XTC, mirostat, adaptive-p or an `allowed` takes one draw.
  void SkipDraw() {
    if (is_greedy_) return;
    ++state_.draw_count;
    state_.draw_last = 1;
    state_.xtc_draw_last = 0;
  }

  // Counts one draw and adapts as the draw of `token` from `logits` would, for a token that is
  // already known, before the token is accepted. A token that could not be drawn from these logits
  // adapts nothing. With llama_draws, the draws are made again. Errors and REQUIRES: those of
  // Sample.
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
  struct Working;  // sampler_working.h

  Sampler(const SamplerOptions& options, std::uint32_t vocab_size, std::vector<TokenId> forbidden);
  // Returns whether only the logits of `allowed` are read.
  bool ReadsOnly(const AllowedTokens* allowed) const;
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

  // sampler_llama.cc
  bool draws_as_llama() const { return options_.llama_draws && !is_greedy_; }
  Status ApplyAsLlama(SamplerKind kind, Working& working) const;
  Status PrepareAsLlama(Working& working) const;
  Result<TokenId> DrawAsLlama(std::span<const float> logits, const AllowedTokens* allowed);
  Result<TokenId> DrawOnceAsLlama(std::span<const float> logits, const AllowedTokens* allowed);
  Result<std::vector<TokenShare>> NextSharesAsLlama(std::span<const float> logits,
                                                    const AllowedTokens* allowed) const;
  void AdaptAsLlama(const struct LlamaCandidate& drawn);

  SamplerOptions options_;
  std::uint32_t vocab_size_;
  std::vector<TokenId> forbidden_;  // end tokens, if ignore_eos is set
  bool is_greedy_;                  // no random number is used
  // The samplers of the chain that are on, except one that draws; kNone after the last one.
  SamplerChain active_{};
  std::shared_ptr<const DryBreakers> breakers_;
  SamplerState state_;
  // llama.cpp's random numbers; a stream's place changes no result.
  MersenneStream draws_;
  mutable MersenneStream xtc_draws_;
  std::vector<wire::TokenLogprob> top_logprobs_;
};

}  // namespace kvd
