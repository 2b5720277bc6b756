// x = Norm(token + type), then in each layer x = Norm(x + Attention(x)) and x = Norm(x +
// FeedForward(x)), with rotated queries and keys and SiLU gates (Nussbaum et al. 2024). Names are
// those of llama.cpp (src/models/bert.cpp).
#include "engine/forward/architectures/nomic_bert.h"

#include "engine/forward/architectures/encoder_config.h"
#include "engine/forward/architectures/encoder_tensors.h"
#include "engine/forward/architectures/text_layers.h"

namespace kvd {
namespace {

Status ReadNomicBertConfig(const ConfigReader& reader, ModelConfig& config) {
  KVD_CHECK_OK(ReadEncoder(reader, EncoderNorms::kLayerNorms, {.dense_size = config.embedding_size},
                           config));
  KVD_CHECK_OK(ReadTypeCount(reader, config));
  return ReadEncoderRope(reader, config);
}

Status VisitNomicBertLayer(const ModelConfig& config, TensorVisitor& visitor,
                           const std::string& block, EncoderLayerWeights& layer) {
  const std::uint64_t width = config.embedding_size;
  const std::uint64_t hidden = config.encoder.feed_forward_size;
  const auto linear = [&](const char* name, std::uint64_t in, std::uint64_t out, LinearView& into) {
    return VisitLinear(visitor, block + name, in, out, BiasRule::kOptional, ScaleRule::kIgnored,
                       into);
  };
  KVD_CHECK_OK(VisitTextAttention(config, visitor, block, layer));
  KVD_CHECK_OK(linear("ffn_gate", width, hidden, layer.gate));
  KVD_CHECK_OK(linear("ffn_up", width, hidden, layer.up));
  KVD_CHECK_OK(linear("ffn_down", hidden, width, layer.down));
  return VisitBertNorms(config, visitor, block, layer);
}

Status VisitNomicBert(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  return VisitBertModel(config, visitor, VisitNomicBertLayer, weights);
}

void EncodeNomicBertRows(EncoderPass& pass, std::size_t layer) {
  EncodeBertRows(pass, layer, TextActivation::kSilu);
}

}  // namespace

const ArchitectureDefinition kNomicBertDefinition = {
    .format = {.architecture = Architecture::kNomicBert,
               .name = "nomic-bert",
               .read_config = ReadNomicBertConfig,
               .visit_tensors = VisitNomicBert},
    .encode_keys = EncodeBertKeys,
    .encode_rows = EncodeNomicBertRows};

}  // namespace kvd
