// x = Norm(token + type), then in each layer x = Norm(x + Attention(x)) and x = Norm(x +
// FeedForward(x)), with GELU gates. Scores are lowered in proportion to the distance (Günther et
// al. 2023; Press et al. 2022). Names are those of llama.cpp (src/models/bert.cpp).
#include "engine/forward/architectures/jina_bert.h"

#include "engine/forward/architectures/encoder_config.h"
#include "engine/forward/architectures/encoder_tensors.h"
#include "engine/forward/architectures/text_layers.h"

namespace kvd {
namespace {

constexpr float kBiasMax = 8.0f;

Status ReadJinaBertConfig(const ConfigReader& reader, ModelConfig& config) {
  KVD_CHECK_OK(ReadEncoder(reader, EncoderNorms::kLayerNorms,
                           {.dense_size = 1, .is_dense_only = true}, config));
  config.encoder.bias_max = kBiasMax;
  return ReadTypeCount(reader, config);
}

Status VisitJinaBertLayer(const ModelConfig& config, TensorVisitor& visitor,
                          const std::string& block, EncoderLayerWeights& layer) {
  const std::uint64_t width = config.embedding_size;
  const std::uint64_t hidden = config.encoder.feed_forward_size;
  KVD_CHECK_OK(VisitTextAttention(config, visitor, block, layer));
  if (visitor.Has(block + "ffn_gate.weight")) {
    KVD_CHECK_OK(VisitLinear(visitor, block + "ffn_gate", width, hidden, BiasRule::kNone,
                             ScaleRule::kIgnored, layer.gate));
    KVD_CHECK_OK(VisitLinear(visitor, block + "ffn_up", width, hidden, BiasRule::kNone,
                             ScaleRule::kIgnored, layer.up));
  } else {
    KVD_CHECK_OK(VisitFusedGate(visitor, block + "ffn_up", width, hidden, layer.gate, layer.up));
  }
  KVD_CHECK_OK(VisitLinear(visitor, block + "ffn_down", hidden, width, BiasRule::kOptional,
                           ScaleRule::kIgnored, layer.down));
  return VisitBertNorms(config, visitor, block, layer);
}

Status VisitJinaBert(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  return VisitBertModel(config, visitor, VisitJinaBertLayer, weights);
}

void EncodeJinaBertRows(EncoderPass& pass, std::size_t layer) {
  EncodeBertRows(pass, layer, TextActivation::kGelu);
}

}  // namespace

const ArchitectureDefinition kJinaBertV2Definition = {
    .format = {.architecture = Architecture::kJinaBertV2,
               .name = "jina-bert-v2",
               .read_config = ReadJinaBertConfig,
               .visit_tensors = VisitJinaBert},
    .encode_keys = EncodeBertKeys,
    .encode_rows = EncodeJinaBertRows};

}  // namespace kvd
