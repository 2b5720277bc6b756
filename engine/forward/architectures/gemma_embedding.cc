// The layers of gemma3 (gemma.cc) in which every token sees the whole text, or in layers with a
// window the tokens on both sides. Two products make the embedding from the pooled row (Vera et al.
// 2025, EmbeddingGemma). Names and defaults are those of llama.cpp
// (src/models/gemma-embedding.cpp).
#include "engine/forward/architectures/gemma_embedding.h"

#include <cmath>

#include "base/text.h"
#include "engine/forward/architectures/encoder_config.h"
#include "engine/forward/architectures/encoder_tensors.h"
#include "engine/forward/architectures/text_layers.h"

namespace kvd {
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

}  // namespace kvd
