// Encoder: x += Attention(Norm(x)), x += FeedForward(Norm(x)); every token sees the whole text.
// Decoder: x += Attention(Norm(x)) with causal attention, x += CrossAttention(Norm(x)) to the
// encoder's output rows, x += FeedForward(Norm(x)). Attention scores get a bias by distance and are
// not scaled (Raffel et al. 2020; gated feed-forwards: Shazeer 2020).
#include "engine/forward/architectures/definitions.h"

#include <array>

#include "engine/forward/architectures/common_tensors.h"
#include "engine/forward/layers/attention_layer.h"
#include "engine/forward/layers/feed_forward.h"
#include "engine/forward/layers/t5_attention.h"
#include "engine/model/attention_config.h"

namespace kvd {
namespace {

Status ReadStartToken(const ConfigReader& reader, ModelConfig& config) {
  const std::string key = reader.Key("decoder_start_token_id");
  if (!reader.file().Has(key)) return {};
  KVD_TRY(const std::uint32_t token, reader.file().GetU32(key));
  if (token >= config.vocab_size) return FailRange(key, token, 0, config.vocab_size - 1);
  config.decoder_start_token = static_cast<std::int32_t>(token);
  return {};
}

Status ReadT5Config(const ConfigReader& reader, ModelConfig& config) {
  EncoderConfig& encoder = config.encoder;
  encoder.layer_count = config.layer_count;
  KVD_TRY(config.layer_count,
          reader.CountOr("decoder_block_count", encoder.layer_count, ModelConfig::kLayerCountMax));
  KVD_TRY(encoder.head_count, reader.Count("attention.head_count", ModelConfig::kHeadCountMax));
  KVD_TRY(const auto kv_heads, reader.CountOr("attention.head_count_kv", encoder.head_count,
                                              ModelConfig::kHeadCountMax));
  if (kv_heads != encoder.head_count) {
    return Fail(Code::kUnsupported, reader.Key("attention.head_count_kv"), ": ", kv_heads,
                " differs from the ", encoder.head_count, " heads");
  }
  KVD_TRY(encoder.feed_forward_size,
          reader.Count("feed_forward_length", ModelConfig::kFeedForwardSizeMax));
  config.window.assign(config.layer_count, 0);
  config.feed_forward_size.assign(config.layer_count, encoder.feed_forward_size);
  KVD_CHECK_OK(ReadHeads(reader, HeadRule::kEveryLayer, config));
  config.attention_scale = 1.0f;
  encoder.kv_head_count = encoder.head_count;
  encoder.head_dim = config.head_dim_k;
  encoder.attention_scale = 1.0f;
  KVD_TRY(config.rms_epsilon, reader.RequiredPositive("attention.layer_norm_rms_epsilon"));
  const std::string buckets = reader.Key("attention.relative_buckets_count");
  KVD_TRY(config.bias_bucket_count, reader.file().GetU32(buckets));
  if (config.bias_bucket_count < ModelConfig::kBiasBucketsMin ||
      config.bias_bucket_count > ModelConfig::kBiasBucketsMax) {
    return FailRange(buckets, config.bias_bucket_count, ModelConfig::kBiasBucketsMin,
                     ModelConfig::kBiasBucketsMax);
  }
  config.has_rope = false;
  return ReadStartToken(reader, config);
}

// Visits the biases of a layer. A layer without biases uses the biases of the first layer.
Status VisitT5Bias(const ModelConfig& config, TensorVisitor& visitor, const std::string& name,
                   std::size_t layer, PositionBias (*spread)(const WeightView&),
                   const PositionBias& first, PositionBias& bias) {
  WeightView buckets;
  KVD_CHECK_OK(visitor.Matrix(name + ".weight", config.encoder.head_count, config.bias_bucket_count,
                              layer == 0 ? Presence::kRequired : Presence::kOptional, buckets));
  if (buckets) {
    bias = spread(buckets);
  } else if (layer != 0) {
    bias = first;
  }
  return {};
}

// Visits q, k, v and o, whose names start with the prefix.
Status VisitT5Projections(const ModelConfig& config, TensorVisitor& visitor,
                          const std::string& prefix, std::array<LinearView*, 4> targets) {
  constexpr std::array kNames = {"q", "k", "v", "o"};
  const std::uint64_t width = config.embedding_size;
  const std::uint64_t heads = std::uint64_t{config.encoder.head_count} * config.head_dim_k;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const bool is_out = i == 3;
    KVD_CHECK_OK(visitor.Matrix(prefix + kNames[i] + ".weight", is_out ? heads : width,
                                is_out ? width : heads, Presence::kRequired, targets[i]->weight));
  }
  return {};
}

// ffn_gate is optional: older T5 models have no gate.
Status VisitFeedForwardOf(const ModelConfig& config, TensorVisitor& visitor,
                          const std::string& block, const float*& norm, LinearView& gate,
                          LinearView& up, LinearView& down) {
  const std::uint64_t width = config.embedding_size;
  const std::uint64_t hidden = config.encoder.feed_forward_size;
  KVD_CHECK_OK(VisitNorm(visitor, block + "ffn_norm", width, norm));
  KVD_CHECK_OK(
      visitor.Matrix(block + "ffn_gate.weight", width, hidden, Presence::kOptional, gate.weight));
  KVD_CHECK_OK(
      visitor.Matrix(block + "ffn_up.weight", width, hidden, Presence::kRequired, up.weight));
  return visitor.Matrix(block + "ffn_down.weight", hidden, width, Presence::kRequired, down.weight);
}

Status VisitT5EncoderLayer(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                           EncoderWeights& encoder) {
  const std::string block = "enc." + BlockPrefix(layer);
  EncoderLayerWeights& into = encoder.layers[layer];
  KVD_CHECK_OK(
      VisitNorm(visitor, block + "attn_norm", config.embedding_size, into.attention_pre_norm));
  KVD_CHECK_OK(VisitT5Bias(config, visitor, block + "attn_rel_b", layer, EncoderBias,
                           encoder.layers.front().position_bias, into.position_bias));
  KVD_CHECK_OK(
      VisitT5Projections(config, visitor, block + "attn_", {&into.q, &into.k, &into.v, &into.out}));
  return VisitFeedForwardOf(config, visitor, block, into.feed_forward_pre_norm.weight, into.gate,
                            into.up, into.down);
}

// Files of t5 may have scales of a layer's products. llama.cpp applies only the scales of the
// decoder's self-attention.
Status VisitScales(TensorVisitor& visitor, std::size_t layer, AttentionWeights* attention) {
  const std::string block = BlockPrefix(layer);
  constexpr std::array kAttention = {"attn_q", "attn_k", "attn_v", "attn_output"};
  for (std::size_t i = 0; i < kAttention.size(); ++i) {
    const std::string name = block + kAttention[i];
    if (attention == nullptr) {
      KVD_CHECK_OK(visitor.Ignore(name + ".scale"));
    } else {
      const std::array targets = {&attention->q, &attention->k, &attention->v, &attention->out};
      KVD_CHECK_OK(visitor.Scale(name + ".scale", targets[i]->scale));
    }
    KVD_CHECK_OK(visitor.Ignore(name + ".input_scale"));
  }
  for (const char* name : {"ffn_gate", "ffn_up", "ffn_down"}) {
    KVD_CHECK_OK(visitor.Ignore(block + name + ".scale"));
    KVD_CHECK_OK(visitor.Ignore(block + name + ".input_scale"));
  }
  return {};
}

Status VisitT5DecoderLayer(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                           ModelWeights& weights) {
  const std::string block = "dec." + BlockPrefix(layer);
  LayerWeights& into = weights.layers[layer];
  AttentionWeights& own = into.attention;
  AttentionWeights& cross = into.cross_attention;
  KVD_CHECK_OK(VisitNorm(visitor, block + "attn_norm", config.embedding_size, own.norm));
  KVD_CHECK_OK(VisitT5Bias(config, visitor, block + "attn_rel_b", layer, DecoderBias,
                           weights.layers.front().position_bias, into.position_bias));
  KVD_CHECK_OK(
      VisitT5Projections(config, visitor, block + "attn_", {&own.q, &own.k, &own.v, &own.out}));
  KVD_CHECK_OK(VisitNorm(visitor, block + "cross_attn_norm", config.embedding_size, cross.norm));
  KVD_CHECK_OK(VisitT5Projections(config, visitor, block + "cross_attn_",
                                  {&cross.q, &cross.k, &cross.v, &cross.out}));
  // Some converters write the tensor cross_attn_rel_b; no published T5 uses it.
  KVD_CHECK_OK(visitor.Ignore(block + "cross_attn_rel_b.weight"));
  FeedForwardWeights& feed_forward = into.feed_forward;
  return VisitFeedForwardOf(config, visitor, block, feed_forward.norm.weight, feed_forward.gate,
                            feed_forward.up, feed_forward.down);
}

Status VisitT5(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  EncoderWeights& encoder = weights.encoder;
  encoder.layers.resize(config.encoder.layer_count);
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  KVD_CHECK_OK(VisitNorm(visitor, "enc.output_norm", config.embedding_size, encoder.output_norm));
  KVD_CHECK_OK(VisitNorm(visitor, "dec.output_norm", config.embedding_size, weights.output_norm));
  KVD_CHECK_OK(VisitOutputMatrix(config, visitor, BiasRule::kNone, weights));
  for (std::size_t layer = 0; layer < config.encoder.layer_count; ++layer) {
    KVD_CHECK_OK(VisitT5EncoderLayer(config, visitor, layer, encoder));
  }
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    KVD_CHECK_OK(VisitT5DecoderLayer(config, visitor, layer, weights));
    KVD_CHECK_OK(VisitScales(visitor, layer, &weights.layers[layer].attention));
  }
  for (std::size_t layer = config.layer_count; layer < config.encoder.layer_count; ++layer) {
    KVD_CHECK_OK(VisitScales(visitor, layer, nullptr));
  }
  return {};
}

void EncodeKeys(EncoderPass& pass, std::size_t layer) {
  if (layer == 0) pass.EmbedTokens();
  pass.MakeKeys(layer, pass.Normed(pass.weights().encoder.layers[layer].attention_pre_norm));
}

void EncodeT5Rows(EncoderPass& pass, std::size_t layer) {
  const EncoderWeights& weights = pass.weights().encoder;
  const EncoderLayerWeights& own = weights.layers[layer];
  pass.AddAttention(layer, pass.Normed(own.attention_pre_norm));
  pass.AddFeedForward(layer, pass.Normed(own.feed_forward_pre_norm),
                      own.gate.weight ? TextActivation::kGelu : TextActivation::kRelu);
  if (layer + 1 == weights.layers.size()) pass.Norm(weights.output_norm);
}

// stream += Out(Attention(Q(x), K(x), V(x))), x = rms_norm(stream)
void RunOwnAttention(ForwardPass& pass, std::size_t layer, const LayerWeights& layer_weights) {
  const AttentionWeights& weights = layer_weights.attention;
  const RowShape shape = {pass.config().head_count[layer], pass.config().head_dim_k};
  const RowBuffer& x = pass.NormedStream(weights.norm);
  const RowBuffer& q = pass.Rows(Scratch::kQ, shape);
  const RowBuffer& k = pass.Rows(Scratch::kK, shape);
  const RowBuffer& v = pass.Rows(Scratch::kV, shape);
  const RowBuffer& attended = pass.Rows(Scratch::kMixerOutput, shape);
  pass.Project(weights.q, x, q);
  pass.Project(weights.k, x, k);
  pass.Project(weights.v, x, v);
  StoreKeysAndValues(pass, layer, k, v);
  RunPlainAttention(pass, layer, layer_weights.position_bias, q, attended);
  pass.AddToStream(weights.out, attended);
}

void RunT5Layer(ForwardPass& pass, std::size_t layer) {
  const LayerWeights& weights = pass.weights().layers[layer];
  RunOwnAttention(pass, layer, weights);
  RunCrossAttentionLayer(pass, layer, weights.cross_attention);
  const bool is_gated = static_cast<bool>(weights.feed_forward.gate.weight);
  RunFeedForward(pass, weights.feed_forward, is_gated ? Activation::kGelu : Activation::kRelu);
}

}  // namespace

const ArchitectureDefinition kT5Definition = {.format = {.architecture = Architecture::kT5,
                                                         .name = "t5",
                                                         .read_config = ReadT5Config,
                                                         .visit_tensors = VisitT5},
                                              .run_layer = RunT5Layer,
                                              .encode_keys = EncodeKeys,
                                              .encode_rows = EncodeT5Rows};

}  // namespace kvd
