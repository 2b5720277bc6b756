// llama, and the architectures that differ from it only by a few values of TransformerTraits.
#include "engine/forward/architectures/definitions.h"

#include <cmath>
#include <limits>

#include "engine/forward/architectures/transformer.h"
#include "engine/model/attention_config.h"

namespace kvd {

// ---- llama
// x += Attention(Norm(x)), x += FeedForward(Norm(x)) (Touvron et al. 2023). The experts are those
// of Mixtral (Jiang et al. 2024). Names and defaults are those of llama.cpp (src/models/llama.cpp,
// mistral3.cpp, smollm3.cpp).

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

// ---- small families
// Names and defaults are those of llama.cpp (src/models/seed-oss.cpp, internlm2.cpp, ernie4-5.cpp,
// ernie4-5-moe.cpp, minicpm.cpp, minimax-m2.cpp, bailingmoe2.cpp, exaone4.cpp).

namespace {

// Seed-OSS (ByteDance Seed 2025)
constexpr TransformerTraits kSeedOssTraits = {.attention_output_bias = BiasRule::kOptional,
                                              .feed_forward_norm = "post_attention_norm"};

// InternLM 2 (Cai et al. 2024)
constexpr TransformerTraits kInternLm2Traits = {.rope_interleaved = true};

// ERNIE 4.5 (Baidu 2025)
constexpr TransformerTraits kErnie45Traits = {.rope_interleaved = true,
                                              .attention_output_bias = BiasRule::kOptional,
                                              .feed_forward_bias = BiasRule::kOptional};
constexpr TransformerTraits kErnie45MoeTraits = {.rope_interleaved = true,
                                                 .attention_output_bias = BiasRule::kOptional,
                                                 .feed_forward_bias = BiasRule::kOptional,
                                                 .expert_rule = {.is_normalised = true,
                                                                 .has_shared = true,
                                                                 .reads_leading_dense = true,
                                                                 .reads_interval = true},
                                                 .expert_tensors = {.has_selection_bias = true},
                                                 .has_experts = true};

// MiniCPM has granite's scales, except the scale of the scores (Hu et al. 2024). Older files do not
// declare them: the defaults are those of llama.cpp for such files.
Status ReadMiniCpmScales(const ConfigReader& reader, ModelConfig& config) {
  const auto layers = static_cast<float>(config.layer_count);
  const auto width = static_cast<float>(config.embedding_size);
  return ReadStreamScales(
      reader,
      {.embedding = 12.0f, .residual = 1.4f / std::sqrt(layers), .logit_divisor = 256.0f / width},
      config);
}

constexpr TransformerTraits kMiniCpmTraits = {.rope_interleaved = true,
                                              .attention_output_bias = BiasRule::kOptional,
                                              .feed_forward_bias = BiasRule::kOptional,
                                              .read_more = ReadMiniCpmScales};

// MiniMax M2 (MiniMax 2025)
constexpr TransformerTraits kMiniMaxM2Traits = {
    .qk_norm = QkNorm::kRows,
    .expert_rule = {.gating = ExpertGating::kSigmoid,
                    .gating_from = ExpertRule::From::kFile,
                    .is_normalised = true},
    .expert_tensors = {.has_selection_bias = true},
    .has_experts = true};

// Bailing MoE 2 (Ling Team 2025)
constexpr TransformerTraits kBailingMoe2Traits = {
    .qk_norm = QkNorm::kHeads,
    .expert_rule = {.gating = ExpertGating::kSigmoid,
                    .gating_from = ExpertRule::From::kFile,
                    .normalised_from = ExpertRule::From::kFile,
                    .reads_scale = true,
                    .reads_groups = true,
                    .has_shared = true,
                    .reads_leading_dense = true},
    .expert_tensors = {.has_selection_bias = true},
    .has_experts = true,
    .has_draft_layers = true};

// The EXAONE 4 model of 64 layers has windows; the layers without a window do not rotate (LG AI
// Research 2025).
Status ReadExaone4Windows(const ConfigReader& reader, ModelConfig& config) {
  constexpr std::uint32_t kLayersOf32B = 64, kPeriod = 4, kWindowDefault = 4096;
  if (config.layer_count != kLayersOf32B) return {};
  KVD_TRY(const auto window,
          reader.CountOr("attention.sliding_window", kWindowDefault, kWindowMax));
  KVD_CHECK_OK(ReadWindows(reader, window, kPeriod, config));
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    config.is_unrotated[layer] = config.window[layer] == 0;
  }
  config.window_has_factors = true;
  return ReadWindowRope(reader, config.rope.freq_base, config.rope.freq_scale, config);
}

constexpr TransformerTraits kExaone4Traits = {.has_rope_factors = true,
                                              .qk_norm = QkNorm::kHeads,
                                              .has_pre_norm = false,
                                              .has_post_norm = true,
                                              .read_more = ReadExaone4Windows};

}  // namespace

const ArchitectureDefinition kSeedOssDefinition =
    DefineTransformer<kSeedOssTraits>(Architecture::kSeedOss, "seed_oss");
const ArchitectureDefinition kInternLm2Definition =
    DefineTransformer<kInternLm2Traits>(Architecture::kInternLm2, "internlm2");
const ArchitectureDefinition kErnie45Definition =
    DefineTransformer<kErnie45Traits>(Architecture::kErnie45, "ernie4_5");
const ArchitectureDefinition kErnie45MoeDefinition =
    DefineTransformer<kErnie45MoeTraits>(Architecture::kErnie45Moe, "ernie4_5-moe");
const ArchitectureDefinition kMiniCpmDefinition =
    DefineTransformer<kMiniCpmTraits>(Architecture::kMiniCpm, "minicpm");
const ArchitectureDefinition kMiniMaxM2Definition =
    DefineTransformer<kMiniMaxM2Traits>(Architecture::kMiniMaxM2, "minimax-m2");
const ArchitectureDefinition kBailingMoe2Definition =
    DefineTransformer<kBailingMoe2Traits>(Architecture::kBailingMoe2, "bailingmoe2");
const ArchitectureDefinition kExaone4Definition =
    DefineTransformer<kExaone4Traits>(Architecture::kExaone4, "exaone4");

}  // namespace kvd
