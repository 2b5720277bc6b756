// x = Norm(token + type + position), then in each layer x = Norm(x + Attention(x)) and
// x = Norm(x + FeedForward(x))   (Devlin et al. 2018). Every text is one segment of type 0.
#include "engine/forward/architectures/bert.h"

#include "engine/forward/architectures/encoder_config.h"
#include "engine/forward/architectures/encoder_tensors.h"
#include "engine/forward/architectures/text_layers.h"

namespace kvd {
namespace {

Status ReadBertConfig(const ConfigReader& reader, ModelConfig& config) {
  KVD_CHECK_OK(ReadEncoder(reader, EncoderNorms::kLayerNorms, {.dense_size = config.embedding_size},
                           config));
  return ReadTypeCount(reader, config);
}

Status VisitBertLayer(const ModelConfig& config, TensorVisitor& visitor, const std::string& block,
                      EncoderLayerWeights& layer) {
  const std::uint64_t width = config.embedding_size;
  const std::uint64_t hidden = config.encoder.feed_forward_size;
  KVD_CHECK_OK(VisitTextAttention(config, visitor, block, layer));
  KVD_CHECK_OK(VisitLinear(visitor, block + "ffn_up", width, hidden, BiasRule::kOptional,
                           ScaleRule::kIgnored, layer.up));
  KVD_CHECK_OK(VisitLinear(visitor, block + "ffn_down", hidden, width, BiasRule::kOptional,
                           ScaleRule::kIgnored, layer.down));
  return VisitBertNorms(config, visitor, block, layer);
}

Status VisitBert(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  KVD_CHECK_OK(visitor.Matrix("position_embd.weight", config.embedding_size, config.context_length,
                              Presence::kRequired, weights.encoder.position_embedding));
  return VisitBertModel(config, visitor, VisitBertLayer, weights);
}

void EncodeGeluRows(EncoderPass& pass, std::size_t layer) {
  EncodeBertRows(pass, layer, TextActivation::kGelu);
}

}  // namespace

const ArchitectureDefinition kBertDefinition = {.format = {.architecture = Architecture::kBert,
                                                           .name = "bert",
                                                           .read_config = ReadBertConfig,
                                                           .visit_tensors = VisitBert},
                                                .encode_keys = EncodeBertKeys,
                                                .encode_rows = EncodeGeluRows};

}  // namespace kvd
