// x += PostNorm(Attention(Norm(x))), x += PostNorm(FeedForward(Norm(x))); token embeddings are
// multiplied by sqrt(embedding_size)   (Gemma Team 2024 and 2025). Defaults are those of llama.cpp
// (src/models/gemma2.cpp and gemma3.cpp).
#include "engine/forward/architectures/gemma.h"

#include <cmath>

#include "engine/forward/architectures/common_tensors.h"
#include "engine/forward/layers/attention_layer.h"
#include "engine/forward/layers/feed_forward.h"
#include "engine/model/attention_config.h"

namespace kvd {
namespace {

// The largest model of gemma2 and of gemma3 is recognised by its number of layers. This model
// scales scores by 1/sqrt(embedding_size / head_count) instead of 1/sqrt(head_dim_k).
Status SetScaleOfLargest(const ConfigReader& reader, std::uint32_t layers_of_largest,
                         ModelConfig& config) {
  if (config.layer_count != layers_of_largest) return {};
  const std::uint32_t share = config.embedding_size / config.head_count[0];
  if (share == 0) {
    return FailRange(reader.Key("attention.head_count"), config.head_count[0], 1,
                     config.embedding_size);
  }
  config.attention_scale = 1.0f / std::sqrt(static_cast<float>(share));
  return {};
}

Status ReadGemma2(const ConfigReader& reader, ModelConfig& config) {
  constexpr std::uint32_t kWindowDefault = 4096, kPeriodDefault = 2, kLayersOf27B = 46;
  KVD_CHECK_OK(ReadGemma(reader, config));
  KVD_CHECK_OK(SetScaleOfLargest(reader, kLayersOf27B, config));
  KVD_TRY(config.attention_softcap, reader.Positive("attn_logit_softcapping", 50.0f));
  KVD_TRY(config.logit_softcap, reader.Positive("final_logit_softcapping", 30.0f));
  KVD_TRY(const auto window,
          reader.CountOr("attention.sliding_window", kWindowDefault, kWindowMax));
  KVD_CHECK_OK(ReadWindows(reader, window, kPeriodDefault, config));
  return ReadWindowRope(reader, config.rope.freq_base, config.rope.freq_scale, config);
}

Status ReadGemma3(const ConfigReader& reader, ModelConfig& config) {
  constexpr std::uint32_t kPeriodDefault = 6, kLayersOf27B = 62;
  constexpr float kWindowFreqBase = 10000.0f;
  KVD_CHECK_OK(ReadGemma(reader, config));
  KVD_CHECK_OK(SetScaleOfLargest(reader, kLayersOf27B, config));
  KVD_TRY(config.logit_softcap, reader.PositiveOrNone("final_logit_softcapping"));
  KVD_TRY(const auto window, reader.file().GetU64Or(reader.Key("attention.sliding_window"), 0));
  if (window > kWindowMax) {
    return FailRange(reader.Key("attention.sliding_window"), window, 0, kWindowMax);
  }
  if (window == 0) return {};
  KVD_CHECK_OK(ReadWindows(reader, static_cast<std::uint32_t>(window), kPeriodDefault, config));
  return ReadWindowRope(reader, kWindowFreqBase, 1.0f, config);
}

Status VisitGemma(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    LayerWeights& into = weights.layers[layer];
    KVD_CHECK_OK(VisitAttention(
        config, visitor, layer,
        {.qk_norm = config.architecture == Architecture::kGemma3 ? QkNorm::kHeads : QkNorm::kNone,
         .has_post_norm = config.architecture != Architecture::kGemma},
        into.attention));
    KVD_CHECK_OK(VisitFeedForward(config, visitor, layer,
                                  {.has_post_norm = config.architecture != Architecture::kGemma},
                                  into.feed_forward));
  }
  return VisitOutput(config, visitor, BiasRule::kNone, weights);
}

void RunGemmaLayer(ForwardPass& pass, std::size_t layer) {
  const LayerWeights& weights = pass.weights().layers[layer];
  RunAttentionLayer(pass, layer, weights.attention);
  RunFeedForward(pass, weights.feed_forward, Activation::kGelu);
}

}  // namespace

Status ReadGemma(const ConfigReader& reader, ModelConfig& config) {
  KVD_CHECK_OK(RequireCausal(reader));
  KVD_TRY(config.feed_forward_size, reader.PerLayer("feed_forward_length", config.layer_count,
                                                    ModelConfig::kFeedForwardSizeMax));
  KVD_CHECK_OK(ReadHeads(reader, HeadRule::kEveryLayer, config));
  KVD_TRY(config.rms_epsilon, reader.RequiredPositive("attention.layer_norm_rms_epsilon"));
  KVD_CHECK_OK(ReadRope(reader, false, config));
  config.embedding_scale = std::sqrt(static_cast<float>(config.embedding_size));
  return {};
}

const ArchitectureDefinition kGemmaDefinition = {.format = {.architecture = Architecture::kGemma,
                                                            .name = "gemma",
                                                            .read_config = ReadGemma,
                                                            .visit_tensors = VisitGemma},
                                                 .run_layer = RunGemmaLayer};
const ArchitectureDefinition kGemma2Definition = {.format = {.architecture = Architecture::kGemma2,
                                                             .name = "gemma2",
                                                             .read_config = ReadGemma2,
                                                             .visit_tensors = VisitGemma},
                                                  .run_layer = RunGemmaLayer};
const ArchitectureDefinition kGemma3Definition = {.format = {.architecture = Architecture::kGemma3,
                                                             .name = "gemma3",
                                                             .read_config = ReadGemma3,
                                                             .visit_tensors = VisitGemma},
                                                  .run_layer = RunGemmaLayer};

}  // namespace kvd
