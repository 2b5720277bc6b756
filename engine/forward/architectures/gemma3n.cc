// gemma3n and gemma4, the architectures of gemma whose layers have inputs of their own.
#include "engine/forward/architectures/definitions.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/forward/architectures/common_tensors.h"
#include "engine/forward/architectures/gemma.h"
#include "engine/forward/architectures/transformer.h"
#include "engine/forward/layers/attention_layer.h"
#include "engine/forward/layers/experts.h"
#include "engine/forward/layers/feed_forward.h"
#include "engine/forward/layers/layer_inputs.h"
#include "engine/model/attention_config.h"

namespace kvd {

// ---- gemma3n
// a = Predict(streams), h = Norm(a), b = (a + PostNorm(Attention(h)) + Laurel(h)) / sqrt(2),
// r = b + PostNorm(FeedForward(Norm(b))), streams = Correct(r)   (Gemma Team 2025). Names, and
// numbers that no key declares, are those of llama.cpp (src/models/gemma3n.cpp).

namespace {

constexpr std::size_t kSparseLayers = 10;
constexpr float kLogitSoftcap = 30.0f;

Status RequireFixed(const ConfigReader& reader, std::string_view suffix, std::uint64_t fixed) {
  KVD_TRY(const auto found, reader.file().GetU64Or(reader.Key(suffix), fixed));
  if (found == fixed) return {};
  return Fail(Code::kUnsupported, reader.Key(suffix), ": ", found, ", only ", fixed,
              " is supported");
}

Status ReadGemma3nSharedLayers(const ConfigReader& reader, ModelConfig& config) {
  constexpr std::uint32_t kFirstShared = 20;
  const std::string key = reader.Key("attention.shared_kv_layers");
  const std::uint32_t layers = config.layer_count;
  KVD_TRY(const auto shared,
          reader.file().GetU64Or(key, layers > kFirstShared ? layers - kFirstShared : 0));
  if (shared == 0) return {};
  const std::uint32_t most = layers < 2 ? 0 : layers - 2;
  if (shared > most) return FailRange(key, shared, 0, most);
  return ShareCellsFrom(reader, layers - static_cast<std::uint32_t>(shared), config);
}

Status ReadGemma3n(const ConfigReader& reader, ModelConfig& config) {
  constexpr std::uint32_t kPeriod = 5;
  constexpr float kWindowFreqBase = 10000.0f;
  KVD_CHECK_OK(RequireFixed(reader, "altup.num_inputs", kStreamCount));
  KVD_CHECK_OK(RequireFixed(reader, "altup.active_idx", 0));
  KVD_CHECK_OK(ReadGemma(reader, config));
  KVD_TRY(const auto window, reader.Count("attention.sliding_window", kWindowMax));
  KVD_CHECK_OK(ReadWindows(reader, window, kPeriod, config));
  KVD_CHECK_OK(ReadWindowRope(reader, kWindowFreqBase, 1.0f, config));
  KVD_CHECK_OK(ReadGemma3nSharedLayers(reader, config));
  KVD_TRY(config.layer_input_size,
          reader.Count("embedding_length_per_layer_input", ModelConfig::kEmbeddingSizeMax));
  config.logit_softcap = kLogitSoftcap;
  config.attention_scale = 1.0f;
  config.has_qk_norm = true;
  return {};
}

Status VisitStreams(const ModelConfig& config, TensorVisitor& visitor, const char* name,
                    std::array<LinearView, kStreamCount - 1>& target) {
  const std::uint64_t n = config.embedding_size;
  WeightView all;
  KVD_CHECK_OK(visitor.MatrixStack(name, n, n, target.size(), Presence::kRequired, all));
  if (!all) return {};  // the visitor only lists tensors
  for (LinearView& view : target) {
    view.weight = all;
    view.weight.out_features = n;
    all.data += n * kernels::RowBytes(all.type, n);
  }
  return {};
}

Status VisitAltup(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                  AltupLayerWeights& weights) {
  const std::string block = BlockPrefix(layer);
  const std::uint64_t n = config.embedding_size;
  const auto linear = [&](const char* name, std::uint64_t in_features, std::uint64_t out_features,
                          LinearView& target) {
    return VisitLinear(visitor, block + name, in_features, out_features, BiasRule::kNone,
                       ScaleRule::kBeforeBias, target);
  };
  KVD_CHECK_OK(linear("altup_router", n, kStreamCount, weights.router));
  KVD_CHECK_OK(VisitNorm(visitor, block + "altup_router_norm", n, weights.router_norm));
  KVD_CHECK_OK(
      linear("altup_predict_coef", kStreamCount, kStreamCount * kStreamCount, weights.predict));
  KVD_CHECK_OK(linear("altup_correct_coef", kStreamCount, kStreamCount, weights.correct));
  KVD_CHECK_OK(VisitNorm(visitor, block + "altup_correct_scale", n, weights.scale));
  KVD_CHECK_OK(linear("laurel_l", n, kLaurelRank, weights.laurel_down));
  KVD_CHECK_OK(linear("laurel_r", kLaurelRank, n, weights.laurel_up));
  return VisitNorm(visitor, block + "laurel_post_norm", n, weights.laurel_norm);
}

Status VisitGemma3n(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  KVD_CHECK_OK(VisitLayerInputTable(config, visitor, weights.layer_inputs));
  KVD_CHECK_OK(VisitStreams(config, visitor, "altup_proj.weight", weights.altup.spread));
  KVD_CHECK_OK(VisitStreams(config, visitor, "altup_unembd_proj.weight", weights.altup.collect));
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    LayerWeights& into = weights.layers[layer];
    KVD_CHECK_OK(VisitAttention(
        config, visitor, layer,
        {.qk_norm = QkNorm::kHeads, .has_post_norm = true, .norms_values = true}, into.attention));
    KVD_CHECK_OK(
        VisitFeedForward(config, visitor, layer, {.has_post_norm = true}, into.feed_forward));
    KVD_CHECK_OK(VisitAltup(config, visitor, layer, into.altup));
    KVD_CHECK_OK(VisitLayerInput(config, visitor, layer, into.layer_input));
  }
  return VisitOutput(config, visitor, BiasRule::kNone, weights);
}

// stream = (stream + x) / sqrt(2)
void Average(ForwardPass& pass, const RowBuffer& x) {
  const std::size_t width = pass.config().embedding_size;
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    const kernels::KernelTable& kernels = *pass.compute().kernels;
    for (std::size_t row = first; row < last; ++row) {
      float* const y = pass.stream()[row];
      kernels.add(y, x[row], width, y);
      kernels.scale(y, std::numbers::sqrt2_v<float> / 2.0f, width, y);
    }
  });
}

void BeginGemma3n(ForwardPass& pass) {
  ComputeLayerInputs(pass);
  SpreadStreams(pass);
}

void RunGemma3nLayer(ForwardPass& pass, std::size_t layer) {
  const LayerWeights& weights = pass.weights().layers[layer];
  PredictStreams(pass, layer);
  const RowBuffer& laurel = RunLaurel(pass, layer, pass.NormedStream(weights.attention.norm));
  RunAttentionLayer(pass, layer, weights.attention);
  Average(pass, laurel);
  RunFeedForward(pass, weights.feed_forward,
                 layer < kSparseLayers ? Activation::kSparseGelu : Activation::kGelu);
  CorrectStreams(pass, layer);
  if (layer + 1 == pass.config().layer_count) CollectStreams(pass);
}

}  // namespace

const ArchitectureDefinition kGemma3nDefinition = {
    .format = {.architecture = Architecture::kGemma3n,
               .name = "gemma3n",
               .read_config = ReadGemma3n,
               .visit_tensors = VisitGemma3n},
    .run_layer = RunGemma3nLayer,
    .begin = BeginGemma3n};

// ---- gemma4
// x += PostNorm(Attention(Norm(x))), x += PostNorm(FeedForward(Norm(x))),
// x += PostNorm(Out(gelu(Gate(x)) * layer_input)), x *= output_scale   (Gemma Team 2025 and 2026).
// Names and defaults are those of llama.cpp (src/models/gemma4.cpp).

namespace {

constexpr ExpertRule kGemma4ExpertRule = {.is_normalised = true};

// Reads which layers have the sliding window. The key is required, because no default says which
// layers have the window.
Status ReadLayersWithWindow(const ConfigReader& reader, ModelConfig& config) {
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  KVD_TRY(const auto window, reader.Count("attention.sliding_window", kWindowMax));
  if (!reader.Has(kPattern)) return Fail(Code::kNotFound, reader.Key(kPattern), ": missing");
  return ReadWindows(reader, window, 0, config);
}

Status ReadGemma4SharedLayers(const ConfigReader& reader, ModelConfig& config) {
  const std::string key = reader.Key("attention.shared_kv_layers");
  KVD_TRY(const auto shared, reader.file().GetU64Or(key, 0));
  if (shared == 0) return {};
  const std::uint32_t most = config.layer_count < 2 ? 0 : config.layer_count - 2;
  if (shared > most) return FailRange(key, shared, 0, most);
  return ShareCellsFrom(reader, config.layer_count - static_cast<std::uint32_t>(shared), config);
}

Status ReadGemma4(const ConfigReader& reader, ModelConfig& config) {
  constexpr float kWindowFreqBase = 10000.0f;
  KVD_CHECK_OK(ReadGemma(reader, config));
  KVD_CHECK_OK(ReadLayersWithWindow(reader, config));
  KVD_CHECK_OK(ReadWindowHeads(reader, config));
  KVD_CHECK_OK(ReadWindowRope(reader, kWindowFreqBase, config.rope.freq_scale, config));
  KVD_CHECK_OK(ReadGemma4SharedLayers(reader, config));
  KVD_TRY(config.logit_softcap, reader.PositiveOrNone("final_logit_softcapping"));
  config.attention_scale = 1.0f;
  config.has_qk_norm = true;
  KVD_CHECK_OK(ReadLayerInputs(reader, config));
  return ReadExperts(reader, kGemma4ExpertRule, config);
}

Status VisitLayerExperts(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                         LayerWeights& weights) {
  const std::string block = BlockPrefix(layer);
  const std::uint64_t embedding = config.embedding_size;
  ParallelExpertNorms& norms = weights.parallel_experts;
  KVD_CHECK_OK(visitor.Vector(block + "ffn_gate_inp.scale", embedding, VectorRole::kNorm,
                              Presence::kRequired, norms.router_norm));
  KVD_CHECK_OK(VisitNorm(visitor, block + "pre_ffw_norm_2", embedding, norms.norm));
  KVD_CHECK_OK(VisitNorm(visitor, block + "post_ffw_norm_2", embedding, norms.post_norm));
  KVD_CHECK_OK(VisitNorm(visitor, block + "post_ffw_norm_1", embedding, norms.feed_forward_norm));
  return VisitExperts(config, visitor, layer, {}, weights.experts);
}

Status VisitGemma4(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  KVD_CHECK_OK(VisitRopeFactors(config, visitor, weights));
  KVD_CHECK_OK(VisitLayerInputTable(config, visitor, weights.layer_inputs));
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    LayerWeights& into = weights.layers[layer];
    KVD_CHECK_OK(VisitAttention(config, visitor, layer,
                                {.qk_norm = QkNorm::kHeads,
                                 .has_post_norm = true,
                                 .keys_may_be_values = config.window[layer] == 0,
                                 .norms_values = true},
                                into.attention));
    KVD_CHECK_OK(
        VisitFeedForward(config, visitor, layer, {.has_post_norm = true}, into.feed_forward));
    if (config.has_experts[layer]) {
      KVD_CHECK_OK(VisitLayerExperts(config, visitor, layer, into));
    }
    KVD_CHECK_OK(VisitLayerInput(config, visitor, layer, into.layer_input));
    KVD_CHECK_OK(
        visitor.Scale(BlockPrefix(layer) + "layer_output_scale.weight", into.output_scale));
  }
  return VisitOutput(config, visitor, BiasRule::kNone, weights);
}

void ScaleStream(ForwardPass& pass, float factor) {
  const std::size_t width = pass.config().embedding_size;
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      pass.compute().kernels->scale(pass.stream()[row], factor, width, pass.stream()[row]);
    }
  });
}

void RunGemma4Layer(ForwardPass& pass, std::size_t layer) {
  const LayerWeights& weights = pass.weights().layers[layer];
  RunAttentionLayer(pass, layer, weights.attention);
  if (pass.config().has_experts[layer]) {
    RunFeedForwardAndExperts(pass, weights, Activation::kGelu);
  } else {
    RunFeedForward(pass, weights.feed_forward, Activation::kGelu);
  }
  if (pass.config().layer_input_size != 0) {
    pass.AddToStream(weights.layer_input.out, GatedLayerInput(pass, layer, pass.stream()),
                     weights.layer_input.post_norm);
  }
  ScaleStream(pass, weights.output_scale);
}

}  // namespace

const ArchitectureDefinition kGemma4Definition = {.format = {.architecture = Architecture::kGemma4,
                                                             .name = "gemma4",
                                                             .read_config = ReadGemma4,
                                                             .visit_tensors = VisitGemma4},
                                                  .run_layer = RunGemma4Layer,
                                                  .begin = ComputeLayerInputs};

}  // namespace kvd
