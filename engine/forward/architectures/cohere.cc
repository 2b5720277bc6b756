// x += Attention(h) + FeedForward(h) with h = LayerNorm(x), a norm without a bias (Cohere 2024).
// Models with many layers also norm each head of q and k. cohere2 (Cohere 2025) has windows; layers
// of cohere2 without a window do not rotate. Names and defaults are those of llama.cpp
// (src/models/command-r.cpp, cohere2.cpp).
#include "engine/forward/architectures/cohere.h"

#include "engine/forward/architectures/transformer.h"
#include "engine/model/attention_config.h"

namespace kvd {
namespace {

Status ReadCommandR(const ConfigReader& reader, ModelConfig& config) {
  constexpr std::uint32_t kLayersWithQkNorm = 64;
  if (config.layer_count >= kLayersWithQkNorm) config.has_qk_norm = true;
  KVD_TRY(config.logit_scale, reader.RequiredPositive("logit_scale"));
  return {};
}

Status ReadCohere2(const ConfigReader& reader, ModelConfig& config) {
  constexpr std::uint32_t kPeriod = 4;
  KVD_TRY(config.logit_scale, reader.RequiredPositive("logit_scale"));
  KVD_TRY(const auto window, reader.Count("attention.sliding_window", kWindowMax));
  KVD_CHECK_OK(ReadWindows(reader, window, kPeriod, config));
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    config.is_unrotated[layer] = config.window[layer] == 0;
  }
  return ReadWindowRope(reader, config.rope.freq_base, config.rope.freq_scale, config);
}

constexpr TransformerTraits kCommandRTraits = {.rope_interleaved = true,
                                               .qk_norm = QkNorm::kHeadsApart,
                                               .qk_norm_is_optional = true,
                                               .has_layer_norms = true,
                                               .is_parallel = true,
                                               .read_more = ReadCommandR};

constexpr TransformerTraits kCohere2Traits = {.rope_interleaved = true,
                                              .has_layer_norms = true,
                                              .is_parallel = true,
                                              .read_more = ReadCohere2};

}  // namespace

const ArchitectureDefinition kCommandRDefinition =
    DefineTransformer<kCommandRTraits>(Architecture::kCommandR, "command-r");
const ArchitectureDefinition kCohere2Definition =
    DefineTransformer<kCohere2Traits>(Architecture::kCohere2, "cohere2");

}  // namespace kvd
