// llama.cpp's draws. A token takes a draw of the seed's std::mt19937, also if there is only one
// candidate. Mirostat and adaptive-p draw with std::discrete_distribution, which takes no random
// number for one candidate. XTC has a generator of the same seed, from which it takes a number at
// each token with two candidates or more. With a grammar (`allowed`), the first draw ignores it; if
// the token is refused, the whole chain runs again over the allowed tokens.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/sampling/sampler.h"
#include "engine/sampling/sampler_working.h"

namespace kvd {
namespace {

Status CheckAtMost(const char* field, std::uint64_t value, std::uint64_t limit) {
  if (value <= limit) return {};
  return Fail(Code::kInvalidArgument, field, ": ", value, " given, must be at most ", limit);
}

// Returns whether the draw takes no random number if there is one candidate only.
bool IsDiscrete(const SamplingParams& params) {
  return params.mirostat != 0 || Applies(params, SamplerKind::kAdaptiveP);
}

float PreferredFloat(float target, const SamplerAdaptation& adaptation) {
  const float wanted = std::clamp(target, 0.0f, 1.0f);
  if (adaptation.adaptive_weight == 0) return wanted;
  return std::clamp(2.0f * wanted - adaptation.adaptive_sum / adaptation.adaptive_weight, 0.0f,
                    1.0f);
}

}  // namespace

Status ValidateLlamaDraws(const SamplerProgress& progress) {
  KVD_CHECK_OK(CheckAtMost("draw_count", progress.draw_count, kLlamaDrawsMax));
  KVD_CHECK_OK(CheckAtMost("xtc_draw_count", progress.xtc_draw_count, kLlamaDrawsMax));
  KVD_CHECK_OK(CheckAtMost("draw_last", progress.draw_last,
                           std::min<std::uint64_t>(2, progress.draw_count)));
  return CheckAtMost("xtc_draw_last", progress.xtc_draw_last,
                     std::min<std::uint32_t>(2, progress.xtc_draw_count));
}

Status Sampler::ApplyAsLlama(SamplerKind kind, Working& working) const {
  const SamplingParams& params = options_.sampling;
  if (kind == SamplerKind::kPenalties) return Penalise(working), Status();
  if (kind == SamplerKind::kDry) return PenaliseRepeated(working), Status();
  LlamaCandidates& candidates = *working.llama;
  const auto k = static_cast<std::size_t>(params.top_k);
  if (!working.has_candidates) {
    working.has_candidates = true;
    if (kind == SamplerKind::kTopK)
      return candidates.TakeTop(working.row, k, working.candidates()), Status();
    candidates.TakeAll(working.row);
  }
  switch (kind) {
    case SamplerKind::kTopNSigma: candidates.KeepTopNSigma(params.top_n_sigma); break;
    case SamplerKind::kTopK: candidates.KeepLikeliest(k); break;
    case SamplerKind::kTypicalP: candidates.KeepTypical(params.typical_p); break;
    case SamplerKind::kTopP: candidates.KeepTop(params.top_p); break;
    case SamplerKind::kMinP: candidates.KeepMinShare(params.min_p); break;
    case SamplerKind::kXtc:
      if (candidates.list().size() < 2) break;
      if (xtc_draws_.UniformFloat(state_.xtc_draw_count + working.xtc_draw_count++) <=
          params.xtc_probability)
        candidates.ExcludeTopChoices(params.xtc_threshold);
      break;
    case SamplerKind::kTemperature:
      if (params.dynatemp_range > 0 && params.mirostat == 0)
        candidates.ScaleByEntropy(params.temperature, params.dynatemp_range,
                                  params.dynatemp_exponent);
      else
        candidates.Scale(params.temperature);
      break;
    default: break;
  }
  return {};
}

// Afterwards the candidates are those that may be drawn. Mirostat and adaptive-p have set their
// shares.
Status Sampler::PrepareAsLlama(Working& working) const {
  const SamplingParams& params = options_.sampling;
  LlamaCandidates& candidates = *working.llama;
  if (working.allowed != nullptr) KVD_CHECK_OK(Restrict(working));
  Bias(working);
  for (const SamplerKind kind : active_.kinds) {
    if (kind == SamplerKind::kNone) break;
    KVD_CHECK_OK(ApplyAsLlama(kind, working));
  }
  if (!working.has_candidates) candidates.TakeAll(working.row);
  working.has_candidates = true;
  KVD_CHECK_OK(working.RequireCandidates());
  const SamplerAdaptation& adaptation = state_.adaptation;
  if (params.mirostat == 1) candidates.KeepZipf(adaptation.mirostat_mu, vocab_size_);
  if (params.mirostat == 2) candidates.KeepSurprise(adaptation.mirostat_mu);
  if (Applies(params, SamplerKind::kAdaptiveP)) {
    candidates.SetShares(false);
    if (params.adaptive_target >= 0)
      candidates.PreferNear(PreferredFloat(params.adaptive_target, adaptation));
  }
  return {};
}

Result<TokenId> Sampler::DrawOnceAsLlama(std::span<const float> logits,
                                         const AllowedTokens* allowed) {
  SamplerScratch& scratch = ThreadScratch();
  Working working{.row = logits, .scratch = scratch, .allowed = allowed, .llama = &scratch.llama};
  KVD_CHECK_OK(PrepareAsLlama(working));
  state_.xtc_draw_count += working.xtc_draw_count;
  LlamaCandidates& candidates = scratch.llama;
  std::size_t picked = 0;
  if (!IsDiscrete(options_.sampling)) {
    picked = candidates.Pick(draws_.Uniform(state_.draw_count++));
  } else if (candidates.list().size() > 1) {
    picked = candidates.PickByShare(draws_.Uniform(state_.draw_count++));
  }
  AdaptAsLlama(candidates.list()[picked]);
  return candidates.list()[picked].token;
}

Result<TokenId> Sampler::DrawAsLlama(std::span<const float> logits, const AllowedTokens* allowed) {
  const SamplerProgress before = state_;
  Result<TokenId> drawn = DrawOnceAsLlama(logits, nullptr);
  if (drawn && allowed != nullptr && !allowed->Has(*drawn)) {
    // Adaptive-p adapts to accepted tokens only, mirostat to each draw.
    if (DrawsNear(options_.sampling)) state_.adaptation = before.adaptation;
    drawn = DrawOnceAsLlama(logits, allowed);
  }
  if (!drawn) {
    SetProgress(before);
    return drawn;
  }
  state_.adaptation_before = before.adaptation;
  state_.draw_last = static_cast<std::uint32_t>(state_.draw_count - before.draw_count);
  state_.xtc_draw_last = state_.xtc_draw_count - before.xtc_draw_count;
  return drawn;
}

void Sampler::AdaptAsLlama(const LlamaCandidate& drawn) {
  const SamplingParams& params = options_.sampling;
  SamplerAdaptation& adaptation = state_.adaptation;
  if (params.mirostat != 0) {
    const float surprise = -std::log2(drawn.share);
    adaptation.mirostat_mu -= params.mirostat_eta * (surprise - params.mirostat_tau);
  } else if (DrawsNear(params)) {
    const float decay = params.adaptive_decay;
    adaptation.adaptive_sum = drawn.plain_share + decay * adaptation.adaptive_sum;
    adaptation.adaptive_weight = 1.0f + decay * adaptation.adaptive_weight;
  }
}

Result<std::vector<TokenShare>> Sampler::NextSharesAsLlama(std::span<const float> logits,
                                                           const AllowedTokens* allowed) const {
  SamplerScratch& scratch = ThreadScratch();
  Working working{.row = logits, .scratch = scratch, .allowed = allowed, .llama = &scratch.llama};
  KVD_CHECK_OK(PrepareAsLlama(working));
  if (!IsDiscrete(options_.sampling)) scratch.llama.SetShares(false);
  std::vector<TokenShare> shares;
  for (const LlamaCandidate& candidate : scratch.llama.list()) {
    if (candidate.logit > -kInfinity)
      shares.push_back({.token = candidate.token, .share = candidate.share});
  }
  return shares;
}

}  // namespace kvd
