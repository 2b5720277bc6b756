// x += PostNorm(Attention(Norm(x))), x += PostNorm(FeedForward(Norm(x))),
// x += PostNorm(Out(gelu(Gate(x)) * layer_input)), x *= output_scale   (Gemma Team 2025 and 2026).
// Names and defaults are those of llama.cpp (src/models/gemma4.cpp).
#include "engine/forward/architectures/gemma4.h"

#include "engine/forward/architectures/gemma.h"
#include "engine/forward/architectures/layer_input_tensors.h"
#include "engine/forward/architectures/transformer.h"
#include "engine/forward/layers/attention_layer.h"
#include "engine/forward/layers/feed_forward.h"
#include "engine/forward/layers/layer_inputs.h"
#include "engine/forward/layers/parallel_experts.h"
#include "engine/model/attention_config.h"

namespace kvd {
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
