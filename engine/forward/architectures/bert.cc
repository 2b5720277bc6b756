// x = Norm(token + type + position), then in each layer x = Norm(x + Attention(x)) and
// x = Norm(x + FeedForward(x))   (Devlin et al. 2018). Every text is one segment of type 0.
#include "engine/forward/architectures/bert.h"

#include <array>
#include <cmath>

#include "engine/forward/architectures/common_tensors.h"

namespace kvd {
namespace {

constexpr std::uint32_t kTypeCountMax = 1u << 16;

Result<Pooling> ReadPooling(const ConfigReader& reader) {
  KVD_TRY(const auto pooling, reader.file().GetU64Or(reader.Key("pooling_type"), 0));
  constexpr auto kLast = static_cast<std::uint64_t>(Pooling::kRank);
  if (pooling > kLast) return FailRange(reader.Key("pooling_type"), pooling, 0, kLast);
  return static_cast<Pooling>(pooling);
}

Status ReadConfig(const ConfigReader& reader, ModelConfig& config) {
  KVD_TRY(const bool causal, reader.file().GetBoolOr(reader.Key("attention.causal"), false));
  if (causal) {
    return Fail(Code::kUnsupported, reader.Key("attention.causal"),
                ": true, only bidirectional attention is supported");
  }
  EncoderConfig& encoder = config.encoder;
  encoder.layer_count = config.layer_count;
  KVD_TRY(encoder.head_count, reader.Count("attention.head_count", ModelConfig::kHeadCountMax));
  KVD_TRY(const auto kv_heads, reader.CountOr("attention.head_count_kv", encoder.head_count,
                                              ModelConfig::kHeadCountMax));
  if (kv_heads != encoder.head_count) {
    return Fail(Code::kUnsupported, reader.Key("attention.head_count_kv"), ": ", kv_heads,
                " differs from the ", encoder.head_count, " heads");
  }
  if (config.embedding_size % encoder.head_count != 0) {
    return Fail(Code::kCorrupt, reader.Key("embedding_length"), ": ", config.embedding_size,
                " is not a multiple of the ", encoder.head_count, " heads");
  }
  encoder.head_dim = config.embedding_size / encoder.head_count;
  encoder.attention_scale = 1.0f / std::sqrt(static_cast<float>(encoder.head_dim));
  KVD_TRY(encoder.feed_forward_size,
          reader.Count("feed_forward_length", ModelConfig::kFeedForwardSizeMax));
  KVD_TRY(encoder.norm_epsilon, reader.RequiredPositive("attention.layer_norm_epsilon"));
  KVD_TRY(encoder.pooling, ReadPooling(reader));
  KVD_TRY(encoder.type_count, reader.file().GetU32("tokenizer.ggml.token_type_count"));
  if (encoder.type_count < 1 || encoder.type_count > kTypeCountMax) {
    return FailRange("tokenizer.ggml.token_type_count", encoder.type_count, 1, kTypeCountMax);
  }
  config.has_decoder = false;
  config.has_rope = false;
  return {};
}

Status VisitLayer(const ModelConfig& config, TensorVisitor& visitor, const std::string& block,
                  EncoderLayerWeights& layer) {
  const std::uint64_t width = config.embedding_size;
  const std::uint64_t hidden = config.encoder.feed_forward_size;
  const auto linear = [&](const char* name, std::uint64_t in, std::uint64_t out, ScaleRule scale,
                          LinearView& into) {
    return VisitLinear(visitor, block + name, in, out, BiasRule::kOptional, scale, into);
  };
  std::array<FusedPart, 3> parts = {{{width, &layer.q}, {width, &layer.k}, {width, &layer.v}}};
  KVD_TRY(const bool fused, visitor.Fused(block + "attn_qkv", width, parts));
  if (!fused) {
    KVD_CHECK_OK(linear("attn_q", width, width, ScaleRule::kBeforeBias, layer.q));
    KVD_CHECK_OK(linear("attn_k", width, width, ScaleRule::kBeforeBias, layer.k));
    KVD_CHECK_OK(linear("attn_v", width, width, ScaleRule::kBeforeBias, layer.v));
  }
  KVD_CHECK_OK(linear("attn_output", width, width, ScaleRule::kBeforeBias, layer.out));
  KVD_CHECK_OK(VisitLayerNorm(visitor, block + "attn_output_norm", width, layer.attention_norm));
  KVD_CHECK_OK(linear("ffn_up", width, hidden, ScaleRule::kIgnored, layer.up));
  KVD_CHECK_OK(linear("ffn_down", hidden, width, ScaleRule::kIgnored, layer.down));
  return VisitLayerNorm(visitor, block + "layer_output_norm", width, layer.output_norm);
}

Status VisitBert(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  EncoderWeights& encoder = weights.encoder;
  encoder.layers.resize(config.encoder.layer_count);
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  KVD_CHECK_OK(visitor.Matrix("token_types.weight", config.embedding_size,
                              config.encoder.type_count, Presence::kOptional,
                              encoder.type_embedding));
  KVD_CHECK_OK(visitor.Matrix("position_embd.weight", config.embedding_size, config.context_length,
                              Presence::kRequired, encoder.position_embedding));
  KVD_CHECK_OK(
      VisitLayerNorm(visitor, "token_embd_norm", config.embedding_size, encoder.embedding_norm));
  for (std::size_t layer = 0; layer < config.encoder.layer_count; ++layer) {
    KVD_CHECK_OK(VisitLayer(config, visitor, BlockPrefix(layer), encoder.layers[layer]));
  }
  // cls.* is the head of a reranker, which has no effect on embeddings.
  for (const char* name : {"cls.weight", "cls.bias", "cls.output.weight", "cls.output.bias"}) {
    KVD_CHECK_OK(visitor.Ignore(name));
  }
  return {};
}

void EncodeKeys(EncoderPass& pass, std::size_t layer) {
  const EncoderWeights& weights = pass.weights().encoder;
  if (layer == 0) {
    pass.EmbedTokens();
    if (weights.type_embedding)
      pass.AddRows(weights.type_embedding, [](std::size_t) { return 0u; });
    pass.AddRows(weights.position_embedding, [](std::size_t position) { return position; });
    pass.Norm(weights.embedding_norm);
  }
  pass.MakeKeys(weights.layers[layer], pass.stream());
}

void EncodeRows(EncoderPass& pass, std::size_t layer) {
  const EncoderLayerWeights& weights = pass.weights().encoder.layers[layer];
  pass.AddAttention(weights, pass.stream());
  pass.Norm(weights.attention_norm);
  pass.AddFeedForward(weights, pass.stream());
  pass.Norm(weights.output_norm);
}

}  // namespace

const ArchitectureDefinition kBertDefinition = {.format = {.architecture = Architecture::kBert,
                                                           .name = "bert",
                                                           .read_config = ReadConfig,
                                                           .visit_tensors = VisitBert},
                                                .encode_keys = EncodeKeys,
                                                .encode_rows = EncodeRows};

}  // namespace kvd
