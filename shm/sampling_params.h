// SamplingParams: how a token is drawn from a row of logits. Requests (wire::GenerateParams), the
// record of a sequence (layout::SamplerRecord), the engine's sampler and the clients use this
// struct.
//
// The bytes of the struct are sent and stored, so its layout must not change.
// engine/sampling/sampler.h defines the effect of each number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"

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

  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};
static_assert(sizeof(SamplingParams) == 36 && std::is_standard_layout_v<SamplingParams> &&
              std::is_trivially_copyable_v<SamplingParams>);

// Sampling at temperature 1 without truncation or penalties.
inline constexpr SamplingParams kPlainSampling = {.temperature = 1,
                                                  .top_k = 0,
                                                  .top_p = 1,
                                                  .min_p = 0,
                                                  .typical_p = 1,
                                                  .repeat_penalty = 1,
                                                  .presence_penalty = 0,
                                                  .frequency_penalty = 0,
                                                  .repeat_last = 0};
// The default for clients that set no parameters: llama.cpp's defaults.
inline constexpr SamplingParams kDefaultSampling = {.temperature = 0.8f,
                                                    .top_k = 40,
                                                    .top_p = 0.95f,
                                                    .min_p = 0.05f,
                                                    .typical_p = 1,
                                                    .repeat_penalty = 1,
                                                    .presence_penalty = 0,
                                                    .frequency_penalty = 0,
                                                    .repeat_last = 64};

// Returns kDefaultSampling with another temperature; 0: the most likely token is always drawn.
constexpr SamplingParams DefaultSamplingAt(float temperature) {
  SamplingParams params = kDefaultSampling;
  params.temperature = temperature;
  return params;
}

// Returns whether the parameters have a penalty, so that preceding tokens influence which token is
// drawn.
constexpr bool Penalises(const SamplingParams& params) {
  return params.repeat_last != 0 && (params.repeat_penalty != 1 || params.presence_penalty != 0 ||
                                     params.frequency_penalty != 0);
}

// Returns an error for the first field that is out of its range: `prefix` and the field's name, the
// number and the limit (kInvalidArgument).
Status ValidateSampling(const SamplingParams& params, std::string_view prefix = "");

// Returns the shortest decimal text that parses to the same float, for messages: "1.5", "nan".
std::string NumberText(float value);

}  // namespace kvd
