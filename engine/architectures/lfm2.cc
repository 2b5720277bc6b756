// x += Mixer(Norm(x)), x += FeedForward(Norm(x)); the mixer is attention in the layers that have KV
// heads, a short convolution in the others. Names and defaults are those of llama.cpp
// (src/models/lfm2.cpp).
#include "engine/architectures/lfm2.h"

#include <limits>

#include "engine/architectures/common_tensors.h"
#include "engine/attention_config.h"
#include "engine/layers/attention_layer.h"
#include "engine/layers/feed_forward.h"
#include "engine/layers/short_convolution.h"

namespace kvd {
namespace {

bool IsAttention(const ModelConfig& config, std::size_t layer) {
  return config.layer_kind[layer] == LayerKind::kAttention;
}

// One window for all layers of attention, if any.
Status ReadWindow(const ConfigReader& reader, ModelConfig& config) {
  constexpr std::uint32_t kWindowMax = std::numeric_limits<std::int32_t>::max();
  KVD_TRY(const auto window, reader.file().GetU64Or(reader.Key("attention.sliding_window"), 0));
  if (window > kWindowMax) {
    return FailRange(reader.Key("attention.sliding_window"), window, 0, kWindowMax);
  }
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    if (IsAttention(config, layer)) config.window[layer] = static_cast<std::uint32_t>(window);
  }
  return {};
}

Status ReadConfig(const ConfigReader& reader, ModelConfig& config) {
  KVD_CHECK_OK(RequireCausal(reader));
  KVD_TRY(config.feed_forward_size, reader.PerLayer("feed_forward_length", config.layer_count,
                                                    ModelConfig::kFeedForwardSizeMax));
  KVD_CHECK_OK(ReadHeads(reader, HeadRule::kLayersWithKvHeads, config));
  KVD_TRY(config.rms_epsilon, reader.RequiredPositive("attention.layer_norm_rms_epsilon"));
  KVD_CHECK_OK(ReadRope(reader, false, config));
  KVD_TRY(config.short_convolution_width,
          reader.Count("shortconv.l_cache", ModelConfig::kConvolutionWidthMax));
  if (config.short_convolution_width < 2) {
    return FailRange(reader.Key("shortconv.l_cache"), config.short_convolution_width, 2,
                     ModelConfig::kConvolutionWidthMax);
  }
  return ReadWindow(reader, config);
}

Status VisitShortConvolution(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                             ShortConvolutionWeights& weights) {
  const std::string block = BlockPrefix(layer);
  const std::uint64_t embedding = config.embedding_size;
  KVD_CHECK_OK(VisitNorm(visitor, block + "attn_norm", embedding, weights.norm));
  KVD_CHECK_OK(visitor.Matrix(block + "shortconv.in_proj.weight", embedding, 3 * embedding,
                              Presence::kRequired, weights.in.weight));
  const std::uint64_t taps[] = {config.short_convolution_width, embedding};
  KVD_CHECK_OK(visitor.Floats(block + "shortconv.conv.weight", taps, VectorRole::kTaps,
                              Presence::kRequired, weights.taps));
  return visitor.Matrix(block + "shortconv.out_proj.weight", embedding, embedding,
                        Presence::kRequired, weights.out.weight);
}

Status VisitLfm2(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    LayerWeights& into = weights.layers[layer];
    if (IsAttention(config, layer)) {
      KVD_CHECK_OK(VisitAttention(config, visitor, layer, {.has_qk_norm = true}, into.attention));
    } else {
      KVD_CHECK_OK(VisitShortConvolution(config, visitor, layer, into.short_convolution));
    }
    KVD_CHECK_OK(VisitFeedForward(config, visitor, layer, {}, into.feed_forward));
  }
  // The projection of an embedding model: no part of the logits.
  KVD_CHECK_OK(visitor.Ignore("dense_2.weight"));
  KVD_CHECK_OK(visitor.Ignore("dense_2.bias"));
  // The norm of the output, in spite of its name.
  KVD_CHECK_OK(VisitNorm(visitor, "token_embd_norm", config.embedding_size, weights.output_norm));
  return VisitOutputMatrix(config, visitor, BiasRule::kNone, weights);
}

std::size_t LayerStateFloats(const ModelConfig& config, std::size_t layer) {
  return IsAttention(config, layer) ? 0 : ShortConvolutionStateFloats(config);
}

void RunLayer(ForwardPass& pass, std::size_t layer) {
  const LayerWeights& weights = pass.weights().layers[layer];
  if (IsAttention(pass.config(), layer)) {
    RunAttentionLayer(pass, layer, weights.attention);
  } else {
    RunShortConvolution(pass, layer, weights.short_convolution);
  }
  RunFeedForward(pass, layer, weights.feed_forward, Activation::kSilu);
}

}  // namespace

const ArchitectureDefinition kLfm2Definition = {.architecture = Architecture::kLfm2,
                                                .name = "lfm2",
                                                .read_config = ReadConfig,
                                                .visit_tensors = VisitLfm2,
                                                .run_layer = RunLayer,
                                                .state_floats = LayerStateFloats};

}  // namespace kvd
