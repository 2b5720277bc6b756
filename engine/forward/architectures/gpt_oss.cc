// x += Attention(Norm(x)), x += Experts(Norm(x)); every other layer sees a window, each head has a
// sink, and all products have a bias (OpenAI 2025). Names and defaults are those of llama.cpp
// (src/models/openai-moe.cpp).
#include "engine/forward/architectures/gpt_oss.h"

#include "engine/forward/architectures/transformer.h"
#include "engine/model/attention_config.h"

namespace kvd {
namespace {

Status ReadGptOssWindow(const ConfigReader& reader, ModelConfig& config) {
  constexpr std::uint32_t kPeriod = 2;
  KVD_TRY(const auto window, reader.Count("attention.sliding_window", kWindowMax));
  KVD_CHECK_OK(ReadWindows(reader, window, kPeriod, config));
  return ReadWindowRope(reader, config.rope.freq_base, config.rope.freq_scale, config);
}

constexpr TransformerTraits kGptOssTraits = {
    .attention_output_bias = BiasRule::kOptional,
    .has_sinks = true,
    .feed_forward_norm = "post_attention_norm",
    .activation = Activation::kClampedSilu,
    .expert_rule = {.gating = ExpertGating::kSoftmaxOfChosen},
    .expert_tensors = {.has_bias = true},
    .has_experts = true,
    .read_more = ReadGptOssWindow};

}  // namespace

const ArchitectureDefinition kGptOssDefinition =
    DefineTransformer<kGptOssTraits>(Architecture::kGptOss, "gpt-oss");

}  // namespace kvd
