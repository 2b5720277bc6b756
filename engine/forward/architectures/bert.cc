// bert and its variants jina-bert-v2, nomic-bert and modern-bert: encoders for embeddings, which
// cache no keys and values.
#include "engine/forward/architectures/definitions.h"

#include "engine/forward/architectures/encoder_parts.h"

namespace kvd {

// ---- bert
// x = Norm(token + type + position), then in each layer x = Norm(x + Attention(x)) and
// x = Norm(x + FeedForward(x))   (Devlin et al. 2018). Every text is one segment of type 0.

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

// ---- jina bert
// x = Norm(token + type), then in each layer x = Norm(x + Attention(x)) and x = Norm(x +
// FeedForward(x)), with GELU gates. Scores are lowered in proportion to the distance (Günther et
// al. 2023; Press et al. 2022). Names are those of llama.cpp (src/models/bert.cpp).

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

// ---- nomic bert
// x = Norm(token + type), then in each layer x = Norm(x + Attention(x)) and x = Norm(x +
// FeedForward(x)), with rotated queries and keys and SiLU gates (Nussbaum et al. 2024). Names are
// those of llama.cpp (src/models/bert.cpp).

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

// ---- modern bert
// x = Norm(token), then in each layer x += Attention(Norm(x)) and x += FeedForward(Norm(x)), with
// GELU gates and rotated queries and keys. Two of three layers have a window. The norms are layer
// norms without bias; the first layer has no norm before attention (Warner et al. 2024). Names and
// defaults are those of llama.cpp (src/models/modern-bert.cpp).

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
