#include "engine/forward/architectures/gemma.h"

#include <cmath>

#include "base/text.h"
#include "engine/forward/architectures/common_tensors.h"
#include "engine/forward/architectures/definitions.h"
#include "engine/forward/architectures/encoder_parts.h"
#include "engine/forward/layers/attention_layer.h"
#include "engine/forward/layers/feed_forward.h"
#include "engine/model/attention_config.h"

namespace kvd {

// ---- gemma
// x += PostNorm(Attention(Norm(x))), x += PostNorm(FeedForward(Norm(x))); token embeddings are
// multiplied by sqrt(embedding_size)   (Gemma Team 2024 and 2025). Defaults are those of llama.cpp
// (src/models/gemma2.cpp and gemma3.cpp).

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

// ---- gemma embedding
// The layers of gemma3 (gemma.cc) in which every token sees the whole text, or in layers with a
// window the tokens on both sides. Two products make the embedding from the pooled row (Vera et al.
// 2025, EmbeddingGemma). Names and defaults are those of llama.cpp
// (src/models/gemma-embedding.cpp).

namespace {

// Reads dense_2 and dense_3: dense_N_feat_in must be the elements before the product.
Status ReadProjections(const ConfigReader& reader, ModelConfig& config) {
  std::uint32_t width = config.embedding_size;
  for (std::size_t i = 0; i < config.encoder.projection_sizes.size(); ++i) {
    const std::string name = Concat("dense_", i + 2, "_feat_");
    if (!reader.Has(name + "out")) continue;
    KVD_TRY(const auto in, reader.CountOr(name + "in", width, ModelConfig::kFeedForwardSizeMax));
    if (in != width) {
      return Fail(Code::kCorrupt, reader.Key(name + "in"), ": ", in, ", must be ", width);
    }
    KVD_TRY(width, reader.Count(name + "out", ModelConfig::kFeedForwardSizeMax));
    config.encoder.projection_sizes[i] = width;
  }
  return {};
}

Status ReadGemmaEmbeddingConfig(const ConfigReader& reader, ModelConfig& config) {
  KVD_CHECK_OK(ReadEncoder(reader, EncoderNorms::kRmsNorms, {}, config));
  config.embedding_scale = std::sqrt(static_cast<float>(config.embedding_size));
  KVD_CHECK_OK(ReadEncoderRope(reader, config));
  KVD_CHECK_OK(ReadEncoderWindows(reader, {.period_default = 6}, config));
  return ReadProjections(reader, config);
}

Status VisitGemmaEmbeddingLayer(const ModelConfig& config, TensorVisitor& visitor,
                                const std::string& block, EncoderLayerWeights& layer) {
  const std::uint64_t width = config.embedding_size;
  const std::uint64_t hidden = config.encoder.feed_forward_size;
  const std::uint64_t head_dim = config.encoder.head_dim;
  const auto linear = [&](const char* name, std::uint64_t in, std::uint64_t out, LinearView& into) {
    return VisitLinear(visitor, block + name, in, out, BiasRule::kNone, ScaleRule::kIgnored, into);
  };
  KVD_CHECK_OK(VisitNorm(visitor, block + "attn_norm", width, layer.attention_pre_norm));
  KVD_CHECK_OK(VisitTextAttention(config, visitor, block, layer));
  KVD_CHECK_OK(VisitNorm(visitor, block + "attn_q_norm", head_dim, layer.q_norm));
  KVD_CHECK_OK(VisitNorm(visitor, block + "attn_k_norm", head_dim, layer.k_norm));
  KVD_CHECK_OK(VisitNorm(visitor, block + "post_attention_norm", width, layer.attention_post_norm));
  KVD_CHECK_OK(VisitNorm(visitor, block + "ffn_norm", width, layer.feed_forward_pre_norm));
  KVD_CHECK_OK(linear("ffn_gate", width, hidden, layer.gate));
  KVD_CHECK_OK(linear("ffn_up", width, hidden, layer.up));
  KVD_CHECK_OK(linear("ffn_down", hidden, width, layer.down));
  return VisitNorm(visitor, block + "post_ffw_norm", width, layer.feed_forward_post_norm);
}

Status VisitGemmaEmbeddingProjections(const ModelConfig& config, TensorVisitor& visitor,
                                      EncoderWeights& encoder) {
  std::uint64_t width = config.embedding_size;
  for (std::size_t i = 0; i < encoder.projections.size(); ++i) {
    const std::uint64_t out = config.encoder.projection_sizes[i];
    if (out == 0) continue;
    KVD_CHECK_OK(VisitLinear(visitor, Concat("dense_", i + 2), width, out, BiasRule::kNone,
                             ScaleRule::kIgnored, encoder.projections[i]));
    width = out;
  }
  return {};
}

Status VisitGemmaEmbedding(const ModelConfig& config, TensorVisitor& visitor,
                           ModelWeights& weights) {
  EncoderWeights& encoder = weights.encoder;
  encoder.layers.resize(config.encoder.layer_count);
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  for (std::size_t layer = 0; layer < config.encoder.layer_count; ++layer) {
    KVD_CHECK_OK(
        VisitGemmaEmbeddingLayer(config, visitor, BlockPrefix(layer), encoder.layers[layer]));
  }
  KVD_CHECK_OK(VisitNorm(visitor, "output_norm", config.embedding_size, encoder.output_norm));
  KVD_CHECK_OK(VisitGemmaEmbeddingProjections(config, visitor, encoder));
  return VisitClassifier(config, visitor, weights);
}

void EncodeGemmaEmbeddingRows(EncoderPass& pass, std::size_t layer) {
  EncodePreNormRows(pass, layer, TextActivation::kGelu);
}

}  // namespace

const ArchitectureDefinition kGemmaEmbeddingDefinition = {
    .format = {.architecture = Architecture::kGemmaEmbedding,
               .name = "gemma-embedding",
               .read_config = ReadGemmaEmbeddingConfig,
               .visit_tensors = VisitGemmaEmbedding},
    .encode_keys = EncodePreNormKeys,
    .encode_rows = EncodeGemmaEmbeddingRows};

// ---- layer input tensors
Status ReadLayerInputs(const ConfigReader& reader, ModelConfig& config) {
  const std::string key = reader.Key("embedding_length_per_layer_input");
  KVD_TRY(const auto size, reader.file().GetU64Or(key, 0));
  if (size > ModelConfig::kEmbeddingSizeMax) {
    return FailRange(key, size, 0, ModelConfig::kEmbeddingSizeMax);
  }
  config.layer_input_size = static_cast<std::uint32_t>(size);
  return {};
}

Status VisitLayerInputTable(const ModelConfig& config, TensorVisitor& visitor,
                            LayerInputTable& table) {
  const std::uint64_t size = config.layer_input_size;
  if (size == 0) return {};
  KVD_CHECK_OK(visitor.Matrix("per_layer_token_embd.weight", size * config.layer_count,
                              config.vocab_size, Presence::kRequired, table.embedding));
  KVD_CHECK_OK(VisitLinear(visitor, "per_layer_model_proj", config.embedding_size,
                           size * config.layer_count, BiasRule::kNone, ScaleRule::kBeforeBias,
                           table.projection));
  return VisitNorm(visitor, "per_layer_proj_norm", size, table.norm);
}

Status VisitLayerInput(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                       LayerInputWeights& weights) {
  const std::uint64_t size = config.layer_input_size, embedding = config.embedding_size;
  if (size == 0) return {};
  const std::string block = BlockPrefix(layer);
  KVD_CHECK_OK(VisitLinear(visitor, block + "inp_gate", embedding, size, BiasRule::kNone,
                           ScaleRule::kBeforeBias, weights.gate));
  KVD_CHECK_OK(VisitLinear(visitor, block + "proj", size, embedding, BiasRule::kNone,
                           ScaleRule::kBeforeBias, weights.out));
  return VisitNorm(visitor, block + "post_norm", embedding, weights.post_norm);
}

}  // namespace kvd
