#include "engine/forward/architectures/encoder_parts.h"

#include <array>
#include <cmath>

#include "engine/model/attention_config.h"

namespace kvd {

// ---- encoder config

namespace {

constexpr std::uint32_t kTypeCountMax = 1u << 16;
constexpr std::size_t kLabelsMax = 4096;

Status ReadEncoderHeads(const ConfigReader& reader, ModelConfig& config) {
  EncoderConfig& encoder = config.encoder;
  KVD_TRY(encoder.head_count, reader.Count("attention.head_count", ModelConfig::kHeadCountMax));
  KVD_TRY(encoder.kv_head_count, reader.CountOr("attention.head_count_kv", encoder.head_count,
                                                ModelConfig::kHeadCountMax));
  if (encoder.head_count % encoder.kv_head_count != 0) {
    return Fail(Code::kCorrupt, reader.Key("attention.head_count"), ": ", encoder.head_count,
                " is not a multiple of the ", encoder.kv_head_count, " KV heads");
  }
  if (!reader.Has("attention.key_length") && config.embedding_size % encoder.head_count != 0) {
    return Fail(Code::kCorrupt, reader.Key("embedding_length"), ": ", config.embedding_size,
                " is not a multiple of the ", encoder.head_count, " heads");
  }
  KVD_TRY(encoder.head_dim,
          reader.CountOr("attention.key_length", config.embedding_size / encoder.head_count,
                         ModelConfig::kHeadDimMax));
  KVD_TRY(const auto value_dim,
          reader.CountOr("attention.value_length", encoder.head_dim, ModelConfig::kHeadDimMax));
  if (value_dim != encoder.head_dim) {
    return Fail(Code::kUnsupported, reader.Key("attention.value_length"), ": ", value_dim,
                " differs from the key length ", encoder.head_dim);
  }
  encoder.attention_scale = 1.0f / std::sqrt(static_cast<float>(encoder.head_dim));
  return {};
}

}  // namespace

Status ReadEncoder(const ConfigReader& reader, EncoderNorms norms,
                   const ClassifierConfig& classifier, ModelConfig& config) {
  KVD_TRY(const bool causal, reader.file().GetBoolOr(reader.Key("attention.causal"), false));
  if (causal) {
    return Fail(Code::kUnsupported, reader.Key("attention.causal"),
                ": true, only bidirectional attention is supported");
  }
  EncoderConfig& encoder = config.encoder;
  encoder.layer_count = config.layer_count;
  KVD_CHECK_OK(ReadEncoderHeads(reader, config));
  KVD_TRY(encoder.feed_forward_size,
          reader.Count("feed_forward_length", ModelConfig::kFeedForwardSizeMax));
  if (norms == EncoderNorms::kLayerNorms) {
    KVD_TRY(encoder.norm_epsilon, reader.RequiredPositive("attention.layer_norm_epsilon"));
  } else {
    KVD_TRY(config.rms_epsilon, reader.RequiredPositive("attention.layer_norm_rms_epsilon"));
  }
  config.has_decoder = false;
  config.has_rope = false;
  encoder.classifier = classifier;
  KVD_CHECK_OK(ReadPooling(reader, encoder));
  // A file without the key makes a row for each token.
  if (!encoder.pooling) encoder.pooling = Pooling::kNone;
  return {};
}

Status ReadTypeCount(const ConfigReader& reader, ModelConfig& config) {
  constexpr const char* kKey = "tokenizer.ggml.token_type_count";
  std::uint32_t& count = config.encoder.type_count;
  KVD_TRY(count, reader.file().GetU32(kKey));
  if (count < 1 || count > kTypeCountMax) return FailRange(kKey, count, 1, kTypeCountMax);
  return {};
}

Status ReadEncoderRope(const ConfigReader& reader, ModelConfig& config) {
  config.head_dim_k = config.head_dim_v = config.encoder.head_dim;
  KVD_CHECK_OK(ReadRope(reader, false, config));
  config.encoder.has_rope = true;
  return {};
}

Status ReadEncoderWindows(const ConfigReader& reader, const EncoderWindows& rule,
                          ModelConfig& config) {
  constexpr float kWindowFreqBase = 10000.0f;
  const std::string key = reader.Key("attention.sliding_window");
  KVD_TRY(const auto window, reader.file().GetU64Or(key, 0));
  if (window > kWindowMax) return FailRange(key, window, 0, kWindowMax);
  if (window == 0) return {};
  EncoderConfig& encoder = config.encoder;
  const std::string pattern = reader.Key("attention.sliding_window_pattern");
  KVD_TRY(const auto period, reader.file().GetU64Or(pattern, rule.period_default));
  if (period > ModelConfig::kLayerCountMax) {
    return FailRange(pattern, period, 0, ModelConfig::kLayerCountMax);
  }
  const std::uint64_t free_layer = rule.is_first_free || period == 0 ? 0 : period - 1;
  for (std::uint32_t layer = 0; layer < encoder.layer_count; ++layer) {
    encoder.has_window.push_back(period == 0 || layer % period != free_layer);
  }
  encoder.reach = static_cast<std::uint32_t>(window / 2);
  return ReadWindowRope(reader, kWindowFreqBase, 1.0f, config);
}

Status ReadPooling(const ConfigReader& reader, EncoderConfig& encoder) {
  const std::string key = reader.Key("pooling_type");
  if (reader.file().Has(key)) {
    constexpr auto kLast = static_cast<std::uint64_t>(Pooling::kRank);
    KVD_TRY(const auto pooling, reader.file().GetU64Or(key, 0));
    if (pooling > kLast) return FailRange(key, pooling, 0, kLast);
    encoder.pooling = static_cast<Pooling>(pooling);
  }
  ClassifierConfig& classifier = encoder.classifier;
  const char* const head = classifier.is_dense_only ? "cls.weight" : "cls.output.weight";
  classifier.is_present = reader.file().FindTensor(head) != nullptr;
  const std::string labels = reader.Key("classifier.output_labels");
  if (!reader.file().Has(labels)) return {};
  KVD_TRY(const auto names, reader.file().GetStringArray(labels));
  if (names.empty() || names.size() > kLabelsMax) {
    return FailRange(labels, names.size(), 1, kLabelsMax);
  }
  classifier.label_count = static_cast<std::uint32_t>(names.size());
  for (const std::string_view name : names) classifier.labels.push_back(PrintableText(name));
  return {};
}

// ---- encoder tensors
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

// ---- text layers
void EncodeBertKeys(EncoderPass& pass, std::size_t layer) {
  const EncoderWeights& weights = pass.weights().encoder;
  if (layer == 0) {
    pass.EmbedTokens();
    if (weights.type_embedding) {
      pass.AddRows(weights.type_embedding, [](std::size_t) { return 0u; });
    }
    if (weights.position_embedding) {
      pass.AddRows(weights.position_embedding, [](std::size_t position) { return position; });
    }
    pass.Norm(weights.embedding_norm);
  }
  pass.MakeKeys(layer, pass.stream());
}

void EncodeBertRows(EncoderPass& pass, std::size_t layer, TextActivation activation) {
  const EncoderLayerWeights& weights = pass.weights().encoder.layers[layer];
  pass.AddAttention(layer, pass.stream());
  pass.Norm(weights.attention_norm);
  pass.AddFeedForward(layer, pass.stream(), activation);
  pass.Norm(weights.output_norm);
}

void EncodePreNormKeys(EncoderPass& pass, std::size_t layer) {
  const EncoderWeights& weights = pass.weights().encoder;
  if (layer == 0) pass.EmbedTokens();
  if (layer == 0 && weights.embedding_norm.weight != nullptr) pass.Norm(weights.embedding_norm);
  pass.MakeKeys(layer, pass.Normed(weights.layers[layer].attention_pre_norm));
}

void EncodePreNormRows(EncoderPass& pass, std::size_t layer, TextActivation activation) {
  const EncoderWeights& weights = pass.weights().encoder;
  pass.AddAttention(layer, pass.Normed(weights.layers[layer].attention_pre_norm));
  pass.AddFeedForward(layer, pass.Normed(weights.layers[layer].feed_forward_pre_norm), activation);
  if (layer + 1 == weights.layers.size()) pass.Norm(weights.output_norm);
}

}  // namespace kvd
