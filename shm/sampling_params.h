// SamplingParams: how a token is drawn from a row of logits. Requests (wire::GenerateParams), the
// record of a sequence (layout::SamplerRecord), the engine's sampler and the clients use this
// struct.
//
// The bytes of the struct are sent and stored, so a change of its layout raises
// wire::kProtocolVersion, layout::kLayoutVersion and the version of stored samplers
// (engine/sampling/kept_sampler.cc). Defaults and ranges are llama.cpp's, unless docs/sampling.md
// says why not; docs/sampling.md also has the formula of each sampler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "shm/sampler_chain.h"

namespace kvd {

struct SamplingParams {
  float temperature;  // temperature, finite and >= 0; 0: the most likely token is always drawn
  // Sampling keeps the top_k most likely tokens; 0: off; larger than the vocabulary: all tokens are
  // kept.
  std::int32_t top_k;
  // (0, 1]: sampling keeps the fewest most likely tokens whose probabilities sum to at least top_p;
  // 1: off.
  float top_p;
  // [0, 1]: sampling keeps the tokens whose probability is at least min_p times the most likely
  // token's probability; 0: off.
  float min_p;
  // (0, 1]: sampling keeps the most typical tokens whose probabilities sum to at least typical_p;
  // 1: off.
  float typical_p;
  // > 0: positive logits of seen tokens are divided by repeat_penalty, negative logits are
  // multiplied by it; 1: off.
  float repeat_penalty;
  // [-2, 2]: presence_penalty is subtracted from the logit of each seen token; 0: off.
  float presence_penalty;
  // [-2, 2]: frequency_penalty is subtracted from a token's logit once for each occurrence of the
  // token; 0: off.
  float frequency_penalty;
  std::int32_t repeat_last;  // number of last tokens that penalties consider; 0: none, -1: all

  // Sampling keeps the tokens whose logit is within top_n_sigma standard deviations of the largest
  // logit; 0 or less: off.
  float top_n_sigma;
  // [0, 1]: the probability with which XTC excludes the top choices at a draw; 0: off.
  float xtc_probability;
  // [0, 1]: tokens that are at least this likely are top choices; above 0.5: off.
  float xtc_threshold;
  float dry_multiplier;  // factor of DRY's penalty, finite and >= 0; 0: off
  float dry_base;        // base of DRY's penalty, finite and >= 1
  // Repetitions that are shorter than dry_allowed_length tokens are not penalised; >= 0.
  std::int32_t dry_allowed_length;
  std::int32_t dry_penalty_last;  // number of last tokens that DRY considers; 0: none, -1: all
  // Half of the width of the range of temperatures around `temperature`, finite and >= 0; 0: the
  // temperature does not depend on the logits.
  float dynatemp_range;
  float dynatemp_exponent;  // finite and >= 0
  // 0: off; 1 or 2: mirostat of this version draws the token. Mirostat replaces the chain: only
  // biases and the temperature precede it.
  std::int32_t mirostat;
  float mirostat_tau;  // target surprise in bits, [0, 1000]
  float mirostat_eta;  // learning rate, [0, 1000]
  // [-1, 1]: probability of the tokens that adaptive-p prefers; negative: off. Adaptive-p also
  // needs a place in the chain.
  float adaptive_target;
  float adaptive_decay;  // [0, 0.99]: weight of the past in adaptive-p's average
  SamplerChain chain;    // order of the samplers; a sampler that the chain lacks is off

  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};
static_assert(sizeof(SamplingParams) == 104 && std::is_standard_layout_v<SamplingParams> &&
              std::is_trivially_copyable_v<SamplingParams>);
// The parameters of protocol 6 and layout 8 end here.
static_assert(offsetof(SamplingParams, top_n_sigma) == 36);

// The numbers that mirostat and adaptive-p change with each draw. They are kept with a sequence,
// with the number of draws.
struct SamplerAdaptation {
  float mirostat_mu;      // largest surprise in bits of a token that may be drawn
  float adaptive_sum;     // adaptive-p: weighted sum of the probabilities of drawn tokens
  float adaptive_weight;  // adaptive-p: sum of the weights
  friend bool operator==(const SamplerAdaptation&, const SamplerAdaptation&) = default;
};
static_assert(sizeof(SamplerAdaptation) == 12);

// Sampling at temperature 1 without truncation or penalties.
inline constexpr SamplingParams kPlainSampling = {.temperature = 1,
                                                  .top_k = 0,
                                                  .top_p = 1,
                                                  .min_p = 0,
                                                  .typical_p = 1,
                                                  .repeat_penalty = 1,
                                                  .presence_penalty = 0,
                                                  .frequency_penalty = 0,
                                                  .repeat_last = 0,
                                                  .top_n_sigma = -1,
                                                  .xtc_probability = 0,
                                                  .xtc_threshold = 0.1f,
                                                  .dry_multiplier = 0,
                                                  .dry_base = 1.75f,
                                                  .dry_allowed_length = 2,
                                                  .dry_penalty_last = 64,
                                                  .dynatemp_range = 0,
                                                  .dynatemp_exponent = 1,
                                                  .mirostat = 0,
                                                  .mirostat_tau = 5,
                                                  .mirostat_eta = 0.1f,
                                                  .adaptive_target = -1,
                                                  .adaptive_decay = 0.9f,
                                                  .chain = kDefaultChain};
// The default for clients that set no parameters: llama.cpp's defaults.
inline constexpr SamplingParams kDefaultSampling = [] {
  SamplingParams params = kPlainSampling;
  params.temperature = 0.8f;
  params.top_k = 40;
  params.top_p = 0.95f;
  params.min_p = 0.05f;
  params.repeat_last = 64;
  return params;
}();

// Returns kDefaultSampling with another temperature; 0: the most likely token is always drawn.
constexpr SamplingParams DefaultSamplingAt(float temperature) {
  SamplingParams params = kDefaultSampling;
  params.temperature = temperature;
  return params;
}

// Returns whether mirostat does not replace the chain, and the chain has the sampler.
constexpr bool Applies(const SamplingParams& params, SamplerKind kind) {
  return params.mirostat == 0 && HasSampler(params.chain, kind);
}
// Return whether the parameters have a penalty (or a penalty of DRY), so that preceding tokens
// influence which token is drawn.
constexpr bool Penalises(const SamplingParams& params) {
  return Applies(params, SamplerKind::kPenalties) && params.repeat_last != 0 &&
         (params.repeat_penalty != 1 || params.presence_penalty != 0 ||
          params.frequency_penalty != 0);
}
constexpr bool PenalisesRepetitions(const SamplingParams& params) {
  return Applies(params, SamplerKind::kDry) && params.dry_penalty_last != 0 &&
         params.dry_multiplier != 0;
}
// Returns how many of the last tokens influence which token is drawn; -1: all.
constexpr std::int32_t HistoryWanted(const SamplingParams& params) {
  const std::int32_t penalties = Penalises(params) ? params.repeat_last : 0;
  const std::int32_t dry = PenalisesRepetitions(params) ? params.dry_penalty_last : 0;
  if (penalties < 0 || dry < 0) return -1;
  return penalties > dry ? penalties : dry;
}
// Returns whether the most likely token is always drawn, without a random number. The samplers that
// reduce the set of tokens then have no effect.
constexpr bool IsGreedy(const SamplingParams& params) {
  if (params.temperature != 0) return false;
  if (params.mirostat != 0) return true;
  return params.dynatemp_range == 0 && HasSampler(params.chain, SamplerKind::kTemperature);
}
// Returns whether adaptive-p draws the tokens.
constexpr bool DrawsNear(const SamplingParams& params) {
  return !IsGreedy(params) && Applies(params, SamplerKind::kAdaptiveP) &&
         params.adaptive_target >= 0;
}
// Returns whether each draw changes the sampler's adaptation.
constexpr bool Adapts(const SamplingParams& params) {
  return !IsGreedy(params) && (params.mirostat != 0 || DrawsNear(params));
}
// The adaptation of a sampler that has drawn no token.
constexpr SamplerAdaptation InitialAdaptation(const SamplingParams& params) {
  const float weight = 1 / (1 - params.adaptive_decay);
  return {.mirostat_mu = 2 * params.mirostat_tau,
          .adaptive_sum = params.adaptive_target * weight,
          .adaptive_weight = weight};
}

// Returns an error for the first field that is out of its range: `prefix` and the field's name, the
// number and the limit (kInvalidArgument).
Status ValidateSampling(const SamplingParams& params, std::string_view prefix = "");
// Errors: kInvalidArgument, for a number that is not finite or that no draws lead to.
Status ValidateAdaptation(const SamplerAdaptation& adaptation);

// Returns the shortest decimal text that parses to the same float, for messages: "1.5", "nan".
std::string NumberText(float value);

}  // namespace kvd
