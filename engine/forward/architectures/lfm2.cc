// x += Mixer(Norm(x)), x += FeedForward(Norm(x)). The mixer is attention in layers that have KV
// heads and a short convolution in the other layers. Names and defaults are those of llama.cpp
// (src/models/lfm2.cpp).
#include "engine/forward/architectures/definitions.h"

#include "engine/forward/architectures/common_tensors.h"
#include "engine/forward/architectures/transformer.h"
#include "engine/forward/layers/attention_layer.h"
#include "engine/forward/layers/convolutions.h"
#include "engine/forward/layers/feed_forward.h"
#include "engine/model/attention_config.h"

namespace kvd {
namespace {

bool IsLfm2Attention(const ModelConfig& config, std::size_t layer) {
  return config.layer_kind[layer] == LayerKind::kAttention;
}

// Reads the sliding window, which is the same in all attention layers; 0: no window.
Status ReadLfm2Window(const ConfigReader& reader, ModelConfig& config) {
  KVD_TRY(const auto window, reader.file().GetU64Or(reader.Key("attention.sliding_window"), 0));
  if (window > kWindowMax) {
    return FailRange(reader.Key("attention.sliding_window"), window, 0, kWindowMax);
  }
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    if (IsLfm2Attention(config, layer)) config.window[layer] = static_cast<std::uint32_t>(window);
  }
  return {};
}

Status ReadLfm2Config(const ConfigReader& reader, ModelConfig& config) {
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
  if (config.architecture == Architecture::kLfm2Moe) {
    KVD_CHECK_OK(ReadExperts(reader,
                             {.gating = ExpertGating::kSigmoid,
                              .gating_from = ExpertRule::From::kFile,
                              .is_normalised = true,
                              .reads_leading_dense = true},
                             config));
  }
  return ReadLfm2Window(reader, config);
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
    if (IsLfm2Attention(config, layer)) {
      KVD_CHECK_OK(
          VisitAttention(config, visitor, layer, {.qk_norm = QkNorm::kHeads}, into.attention));
    } else {
      KVD_CHECK_OK(VisitShortConvolution(config, visitor, layer, into.short_convolution));
    }
    KVD_CHECK_OK(
        VisitFeedForwardOrExperts(config, visitor, layer, {}, {.has_selection_bias = true}, into));
  }
  // The projection of an embedding model, which has no effect on logits.
  KVD_CHECK_OK(visitor.Ignore("dense_2.weight"));
  KVD_CHECK_OK(visitor.Ignore("dense_2.bias"));
  // token_embd_norm is the norm of the output, in spite of the tensor's name.
  KVD_CHECK_OK(VisitNorm(visitor, "token_embd_norm", config.embedding_size, weights.output_norm));
  return VisitOutputMatrix(config, visitor, BiasRule::kNone, weights);
}

std::size_t Lfm2StateFloats(const ModelConfig& config, std::size_t layer) {
  return IsLfm2Attention(config, layer) ? 0 : ShortConvolutionStateFloats(config);
}

void RunLfm2Layer(ForwardPass& pass, std::size_t layer) {
  const LayerWeights& weights = pass.weights().layers[layer];
  if (IsLfm2Attention(pass.config(), layer)) {
    RunAttentionLayer(pass, layer, weights.attention);
  } else {
    RunShortConvolution(pass, layer, weights.short_convolution);
  }
  RunFeedForwardOrExperts(pass, layer, Activation::kSilu);
}

constexpr ArchitectureDefinition DefineLfm2(Architecture architecture, std::string_view name) {
  return {.format = {.architecture = architecture,
                     .name = name,
                     .read_config = ReadLfm2Config,
                     .visit_tensors = VisitLfm2,
                     .state_kind = StateKind::kShortConvolution,
                     .state_floats = Lfm2StateFloats},
          .run_layer = RunLfm2Layer};
}

}  // namespace

const ArchitectureDefinition kLfm2Definition = DefineLfm2(Architecture::kLfm2, "lfm2");
const ArchitectureDefinition kLfm2MoeDefinition = DefineLfm2(Architecture::kLfm2Moe, "lfm2moe");

}  // namespace kvd
