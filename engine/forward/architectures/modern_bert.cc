// x = Norm(token), then in each layer x += Attention(Norm(x)) and x += FeedForward(Norm(x)), with
// GELU gates and rotated queries and keys. Two of three layers have a window. The norms are layer
// norms without bias; the first layer has no norm before attention (Warner et al. 2024). Names and
// defaults are those of llama.cpp (src/models/modern-bert.cpp).
#include "engine/forward/architectures/modern_bert.h"

#include "engine/forward/architectures/encoder_config.h"
#include "engine/forward/architectures/encoder_tensors.h"
#include "engine/forward/architectures/text_layers.h"

namespace kvd {
namespace {

Status ReadModernBertConfig(const ConfigReader& reader, ModelConfig& config) {
  KVD_CHECK_OK(ReadEncoder(
      reader, EncoderNorms::kLayerNorms,
      {.row = Pooling::kMean, .dense_size = config.embedding_size, .has_gelu = true}, config));
  KVD_CHECK_OK(ReadEncoderRope(reader, config));
  return ReadEncoderWindows(reader, {.period_default = 3, .is_first_free = true}, config);
}

Status VisitModernBertLayer(const ModelConfig& config, TensorVisitor& visitor, std::size_t number,
                            EncoderLayerWeights& layer) {
  const std::uint64_t width = config.embedding_size;
  const std::uint64_t hidden = config.encoder.feed_forward_size;
  const std::string block = BlockPrefix(number);
  if (number != 0) {
    KVD_CHECK_OK(VisitNorm(visitor, block + "attn_norm", width, layer.attention_pre_norm));
  }
  KVD_CHECK_OK(VisitTextAttention(config, visitor, block, layer));
  KVD_CHECK_OK(VisitNorm(visitor, block + "ffn_norm", width, layer.feed_forward_pre_norm));
  KVD_CHECK_OK(VisitFusedGate(visitor, block + "ffn_up", width, hidden, layer.gate, layer.up));
  return VisitLinear(visitor, block + "ffn_down", hidden, width, BiasRule::kNone,
                     ScaleRule::kIgnored, layer.down);
}

Status VisitModernBert(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  EncoderWeights& encoder = weights.encoder;
  encoder.layers.resize(config.encoder.layer_count);
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  KVD_CHECK_OK(
      VisitNorm(visitor, "token_embd_norm", config.embedding_size, encoder.embedding_norm));
  for (std::size_t layer = 0; layer < config.encoder.layer_count; ++layer) {
    KVD_CHECK_OK(VisitModernBertLayer(config, visitor, layer, encoder.layers[layer]));
  }
  KVD_CHECK_OK(VisitNorm(visitor, "output_norm", config.embedding_size, encoder.output_norm));
  return VisitClassifier(config, visitor, weights);
}

void EncodeModernBertRows(EncoderPass& pass, std::size_t layer) {
  EncodePreNormRows(pass, layer, TextActivation::kGelu);
}

}  // namespace

const ArchitectureDefinition kModernBertDefinition = {
    .format = {.architecture = Architecture::kModernBert,
               .name = "modern-bert",
               .read_config = ReadModernBertConfig,
               .visit_tensors = VisitModernBert},
    .encode_keys = EncodePreNormKeys,
    .encode_rows = EncodeModernBertRows};

}  // namespace kvd
