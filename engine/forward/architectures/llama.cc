// x += Attention(Norm(x)), x += FeedForward(Norm(x)) (Touvron et al. 2023). The experts are those
// of Mixtral (Jiang et al. 2024). Names and defaults are those of llama.cpp (src/models/llama.cpp,
// mistral3.cpp, smollm3.cpp).
#include "engine/forward/architectures/llama.h"

#include <cmath>
#include <limits>

#include "engine/forward/architectures/transformer.h"

namespace kvd {
namespace {

constexpr TransformerTraits kLlamaTraits = {
    .rope_interleaved = true,
    .has_rope_factors = true,
    .attention_output_bias = BiasRule::kOptional,
    .feed_forward_bias = BiasRule::kOptional,
    .feed_forward_scale = ScaleRule::kAfterBias,
    .expert_rule = {.is_normalised = true, .size_is_feed_forward = true},
    .has_experts = true};

// Ministral and Mistral 3 have YaRN, whose factor of cos and sin may be divided by another factor,
// and multiply queries by a number that rises with the position.
Status ReadMistral3(const ConfigReader& reader, ModelConfig& config) {
  KVD_TRY(const float multiplier, reader.PositiveOrNone("rope.scaling.yarn_log_multiplier"));
  if (config.rope.scaling == RopeScaling::kYarn && config.rope.freq_scale < 1.0f) {
    const float divisor = 1.0f + 0.1f * multiplier * std::log(1.0f / config.rope.freq_scale);
    if (multiplier != 0.0f) config.rope.attention_factor /= divisor;
  }
  config.window_rope = config.rope;
  KVD_TRY(config.query_scale, reader.PositiveOrNone("attention.temperature_scale"));
  config.query_scale_from = config.rope.original_context_length;
  return {};
}

constexpr TransformerTraits kMistral3Traits = {.rope_interleaved = true,
                                               .attention_output_bias = BiasRule::kOptional,
                                               .feed_forward_bias = BiasRule::kOptional,
                                               .feed_forward_scale = ScaleRule::kAfterBias,
                                               .expert_rule = {.is_normalised = true},
                                               .has_experts = true,
                                               .read_more = ReadMistral3};

// Every fourth layer of SmolLM 3 does not rotate queries and keys (Bakouch et al. 2025).
constexpr TransformerTraits kSmolLm3Traits = {.rope_interleaved = true, .unrotated_period = 4};

}  // namespace

const ArchitectureDefinition kLlamaDefinition =
    DefineTransformer<kLlamaTraits>(Architecture::kLlama, "llama");
const ArchitectureDefinition kMistral3Definition =
    DefineTransformer<kMistral3Traits>(Architecture::kMistral3, "mistral3");
const ArchitectureDefinition kSmolLm3Definition =
    DefineTransformer<kSmolLm3Traits>(Architecture::kSmolLm3, "smollm3");

}  // namespace kvd
