// olmo2: x += Norm(Attention(x)), x += Norm(FeedForward(x)) (OLMo Team 2025); olmoe: norms before,
// experts (Muennighoff et al. 2024). olmo2 and olmoe norm whole rows of q and k. Names and defaults
// are those of llama.cpp (src/models/olmo2.cpp, olmoe.cpp).
#include "engine/forward/architectures/olmo.h"

#include "engine/forward/architectures/transformer.h"
#include "engine/model/attention_config.h"

namespace kvd {
namespace {

// Files of Olmo 3 also name their architecture olmo2, and declare windows. Layers of Olmo 3 with a
// window rotate without YaRN.
Status ReadOlmo3Windows(const ConfigReader& reader, ModelConfig& config) {
  constexpr std::uint32_t kPeriod = 4;
  KVD_TRY(const auto window, reader.file().GetU64Or(reader.Key("attention.sliding_window"), 0));
  if (window == 0) return {};
  if (window > kWindowMax) {
    return FailRange(reader.Key("attention.sliding_window"), window, 0, kWindowMax);
  }
  KVD_CHECK_OK(ReadWindows(reader, static_cast<std::uint32_t>(window), kPeriod, config));
  KVD_CHECK_OK(ReadWindowRope(reader, config.rope.freq_base, 1.0f, config));
  config.window_rope.scaling = RopeScaling::kNone;
  config.window_rope.yarn_ext_factor = 0.0f;
  config.window_rope.attention_factor = 1.0f;
  return {};
}

constexpr TransformerTraits kOlmo2Traits = {.qk_norm = QkNorm::kRows,
                                            .has_pre_norm = false,
                                            .has_post_norm = true,
                                            .read_more = ReadOlmo3Windows};

constexpr TransformerTraits kOlmoeTraits = {
    .qk_norm = QkNorm::kRows, .expert_rule = {.size_is_feed_forward = true}, .has_experts = true};

}  // namespace

const ArchitectureDefinition kOlmo2Definition =
    DefineTransformer<kOlmo2Traits>(Architecture::kOlmo2, "olmo2");
const ArchitectureDefinition kOlmoeDefinition =
    DefineTransformer<kOlmoeTraits>(Architecture::kOlmoe, "olmoe");

}  // namespace kvd
