#include "engine/forward/architectures/encoder_tensors.h"

#include <array>

namespace kvd {

Status VisitTextAttention(const ModelConfig& config, TensorVisitor& visitor,
                          const std::string& block, EncoderLayerWeights& layer) {
  const EncoderConfig& encoder = config.encoder;
  const std::uint64_t width = config.embedding_size;
  const std::uint64_t q_width = std::uint64_t{encoder.head_count} * encoder.head_dim;
  const std::uint64_t kv_width = std::uint64_t{encoder.kv_head_count} * encoder.head_dim;
  const auto linear = [&](const char* name, std::uint64_t in, std::uint64_t out, LinearView& into) {
    return VisitLinear(visitor, block + name, in, out, BiasRule::kOptional, ScaleRule::kBeforeBias,
                       into);
  };
  std::array<FusedPart, 3> parts = {
      {{q_width, &layer.q}, {kv_width, &layer.k}, {kv_width, &layer.v}}};
  KVD_TRY(const bool fused, visitor.Fused(block + "attn_qkv", width, parts));
  if (!fused) {
    KVD_CHECK_OK(linear("attn_q", width, q_width, layer.q));
    KVD_CHECK_OK(linear("attn_k", width, kv_width, layer.k));
    KVD_CHECK_OK(linear("attn_v", width, kv_width, layer.v));
  }
  return linear("attn_output", q_width, width, layer.out);
}

Status VisitBertNorms(const ModelConfig& config, TensorVisitor& visitor, const std::string& block,
                      EncoderLayerWeights& layer) {
  KVD_CHECK_OK(VisitLayerNorm(visitor, block + "attn_output_norm", config.embedding_size,
                              layer.attention_norm));
  return VisitLayerNorm(visitor, block + "layer_output_norm", config.embedding_size,
                        layer.output_norm);
}

Status VisitClassifier(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  const ClassifierConfig& sizes = config.encoder.classifier;
  ClassifierWeights& classifier = weights.encoder.classifier;
  std::uint64_t width = config.embedding_size;
  if (sizes.dense_size != 0) {
    KVD_CHECK_OK(visitor.Matrix("cls.weight", width, sizes.dense_size, Presence::kOptional,
                                classifier.dense.weight));
    KVD_CHECK_OK(visitor.Vector("cls.bias", sizes.dense_size, VectorRole::kBias,
                                Presence::kOptional, classifier.dense.bias));
    KVD_CHECK_OK(visitor.Vector("cls.norm.weight", sizes.dense_size, VectorRole::kNorm,
                                Presence::kOptional, classifier.norm.weight));
    if (classifier.dense.weight) width = sizes.dense_size;
  }
  if (sizes.is_dense_only) return {};
  KVD_CHECK_OK(visitor.Matrix("cls.output.weight", width, sizes.label_count, Presence::kOptional,
                              classifier.output.weight));
  return visitor.Vector("cls.output.bias", sizes.label_count, VectorRole::kBias,
                        Presence::kOptional, classifier.output.bias);
}

Status VisitBertModel(const ModelConfig& config, TensorVisitor& visitor,
                      VisitEncoderLayer visit_layer, ModelWeights& weights) {
  EncoderWeights& encoder = weights.encoder;
  encoder.layers.resize(config.encoder.layer_count);
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  KVD_CHECK_OK(visitor.Matrix("token_types.weight", config.embedding_size,
                              config.encoder.type_count, Presence::kOptional,
                              encoder.type_embedding));
  KVD_CHECK_OK(
      VisitLayerNorm(visitor, "token_embd_norm", config.embedding_size, encoder.embedding_norm));
  for (std::size_t layer = 0; layer < config.encoder.layer_count; ++layer) {
    KVD_CHECK_OK(visit_layer(config, visitor, BlockPrefix(layer), encoder.layers[layer]));
  }
  return VisitClassifier(config, visitor, weights);
}

}  // namespace kvd
