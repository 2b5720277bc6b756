// SamplingParams: how a token is drawn from a row of logits, as one struct for everything that has
// it: requests (wire::GenerateParams), what a sequence keeps (layout::SamplerRecord), the engine's
// sampler and the clients.
//
// Its bytes are shared and stored. What the numbers do is said in engine/sampler.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "shm/error.h"

namespace kvd {

struct SamplingParams {
  float temperature;         // 0: greedy; >= 0, finite
  std::int32_t top_k;        // the k most likely; 0: off; more than the vocabulary is all of it
  float top_p;               // (0, 1]: the fewest most likely tokens that hold this much; 1: off
  float min_p;               // [0, 1]: at least this share of the likeliest's probability; 0: off
  float typical_p;           // (0, 1]: nearest to the expected surprise, holding this much; 1: off
  float repeat_penalty;      // > 0: divides seen tokens' positive logits, multiplies others; 1: off
  float presence_penalty;    // [-2, 2]: taken from the logit of each token seen; 0: off
  float frequency_penalty;   // [-2, 2]: taken once per time that it was seen; 0: off
  std::int32_t repeat_last;  // tokens that penalties look back at; 0: none, -1: all

  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};
static_assert(sizeof(SamplingParams) == 36 && std::is_standard_layout_v<SamplingParams> &&
              std::is_trivially_copyable_v<SamplingParams>);

// A draw at temperature 1 and nothing else.
inline constexpr SamplingParams kPlainSampling = {.temperature = 1,
                                                  .top_k = 0,
                                                  .top_p = 1,
                                                  .min_p = 0,
                                                  .typical_p = 1,
                                                  .repeat_penalty = 1,
                                                  .presence_penalty = 0,
                                                  .frequency_penalty = 0,
                                                  .repeat_last = 0};
// What a client gets that asks for nothing else: llama.cpp's defaults.
inline constexpr SamplingParams kDefaultSampling = {.temperature = 0.8f,
                                                    .top_k = 40,
                                                    .top_p = 0.95f,
                                                    .min_p = 0.05f,
                                                    .typical_p = 1,
                                                    .repeat_penalty = 1,
                                                    .presence_penalty = 0,
                                                    .frequency_penalty = 0,
                                                    .repeat_last = 64};

// kDefaultSampling at another temperature; 0: greedy.
constexpr SamplingParams DefaultSamplingAt(float temperature) {
  SamplingParams params = kDefaultSampling;
  params.temperature = temperature;
  return params;
}

// Whether the tokens that came before change anything.
constexpr bool Penalises(const SamplingParams& params) {
  return params.repeat_last != 0 && (params.repeat_penalty != 1 || params.presence_penalty != 0 ||
                                     params.frequency_penalty != 0);
}

// Names the first field out of its range as `prefix` and its name, with the number and the limit
// (kInvalidArgument).
Status ValidateSampling(const SamplingParams& params, std::string_view prefix = "");

// "1.5", "nan": the fewest digits that give the number back; for messages.
std::string NumberText(float value);

}  // namespace kvd
