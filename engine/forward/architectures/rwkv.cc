// x += TimeMix(Norm(x)), x += ChannelMix(Norm(x)); the embeddings are normed first. Names, shapes
// and defaults are those of llama.cpp (src/models/rwkv6.cpp and rwkv7.cpp).
#include "engine/forward/architectures/definitions.h"

#include <array>
#include <string>

#include "engine/forward/architectures/common_tensors.h"
#include "engine/forward/layers/linear_attention.h"
#include "engine/forward/layers/rwkv.h"

namespace kvd {
namespace {

constexpr std::uint32_t kRankMax = 1u << 14;

Status ReadRwkvCommon(const ConfigReader& reader, ModelConfig& config) {
  KVD_TRY(config.feed_forward_size, reader.PerLayer("feed_forward_length", config.layer_count,
                                                    ModelConfig::kFeedForwardSizeMax));
  KVD_TRY(config.layer_norm_epsilon, reader.RequiredPositive("attention.layer_norm_epsilon"));
  KVD_TRY(config.rwkv.head_size, reader.Count("wkv.head_size", kLinearHeadSizeMax));
  if (config.embedding_size % config.rwkv.head_size != 0) {
    return Fail(Code::kCorrupt, reader.Key("embedding_length"), ": ", config.embedding_size,
                " is not a multiple of the head size ", config.rwkv.head_size);
  }
  KVD_TRY(const auto shifts, reader.CountOr("token_shift_count", 2, 1u << 16));
  if (shifts != 2) {
    return Fail(Code::kUnsupported, reader.Key("token_shift_count"), ": ", shifts,
                ", only 2 is supported");
  }
  config.layer_kind.assign(config.layer_count, LayerKind::kRecurrent);
  config.has_rope = false;
  return {};
}

Status ReadRwkv6(const ConfigReader& reader, ModelConfig& config) {
  KVD_CHECK_OK(ReadRwkvCommon(reader, config));
  KVD_TRY(config.rwkv.mix_rank, reader.Count("time_mix_extra_dim", kRankMax));
  KVD_TRY(config.rwkv.decay_rank, reader.Count("time_decay_extra_dim", kRankMax));
  KVD_TRY(const auto period, reader.file().GetU64Or(reader.Key("rescale_every_n_layers"), 0));
  if (period > ModelConfig::kLayerCountMax) {
    return FailRange(reader.Key("rescale_every_n_layers"), period, 0, ModelConfig::kLayerCountMax);
  }
  config.rwkv.halving_period = static_cast<std::uint32_t>(period);
  return {};
}

Status ReadRwkv7(const ConfigReader& reader, ModelConfig& config) {
  KVD_CHECK_OK(ReadRwkvCommon(reader, config));
  KVD_TRY(config.rwkv.decay_rank, reader.Count("attention.decay_lora_rank", kRankMax));
  KVD_TRY(config.rwkv.rate_rank, reader.Count("attention.iclr_lora_rank", kRankMax));
  KVD_TRY(config.rwkv.value_rank, reader.Count("attention.value_residual_mix_lora_rank", kRankMax));
  KVD_TRY(config.rwkv.gate_rank, reader.Count("attention.gate_lora_rank", kRankMax));
  return {};
}

// The tensors of one layer.
class Block {
 public:
  Block(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer)
      : visitor_(visitor), prefix_(BlockPrefix(layer)), width_(config.embedding_size) {}

  std::string Name(const std::string& name) const { return prefix_ + name + ".weight"; }
  std::uint64_t width() const { return width_; }

  Status Numbers(const std::string& name, VectorRole role, const float*& target) {
    return visitor_.Vector(Name(name), width_, role, Presence::kRequired, target);
  }
  Status Norm(const std::string& name, NormWeights& norm) {
    return VisitLayerNorm(visitor_, prefix_ + name, width_, norm);
  }
  Status Matrix(const std::string& name, std::uint64_t in, std::uint64_t out, LinearView& target) {
    return visitor_.Matrix(Name(name), in, out, Presence::kRequired, target.weight);
  }
  Status Square(const std::string& name, LinearView& target) {
    return Matrix(name, width_, width_, target);
  }
  // NAME1 and NAME2.
  Status Pair(const std::string& name, std::uint64_t rank, LowRank& target) {
    KVD_CHECK_OK(Matrix(name + "1", width_, rank, target.first));
    return Matrix(name + "2", rank, width_, target.second);
  }

 private:
  TensorVisitor& visitor_;
  const std::string prefix_;
  const std::uint64_t width_;
};

// The mixes of w, k, v, r and g: one tensor for all mixes, or one tensor for each mix.
Status VisitMixes(TensorVisitor& visitor, Block& block, Rwkv6TimeMix& weights) {
  constexpr std::array kNames = {"w", "k", "v", "r", "g"};
  const float* fused = nullptr;
  const std::uint64_t dims[] = {block.width(), 1, 1, kNames.size()};
  KVD_CHECK_OK(visitor.Floats(block.Name("time_mix_lerp_fused"), dims, VectorRole::kMix,
                              Presence::kOptional, fused));
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const std::string name = std::string("time_mix_lerp_") + kNames[i];
    if (fused == nullptr) {
      KVD_CHECK_OK(block.Numbers(name, VectorRole::kMix, weights.mix[i]));
    } else {
      KVD_CHECK_OK(visitor.Ignore(block.Name(name)));
      weights.mix[i] = fused + i * block.width();
    }
  }
  return {};
}

Status VisitTimeMix6(const ModelConfig& config, TensorVisitor& visitor, Block& block,
                     Rwkv6TimeMix& weights) {
  const RwkvConfig& rwkv = config.rwkv;
  KVD_CHECK_OK(block.Norm("attn_norm", weights.norm));
  KVD_CHECK_OK(block.Numbers("time_mix_lerp_x", VectorRole::kMix, weights.mix_x));
  KVD_CHECK_OK(VisitMixes(visitor, block, weights));
  KVD_CHECK_OK(block.Matrix("time_mix_w1", block.width(), 5 * std::uint64_t{rwkv.mix_rank},
                            weights.mix_first));
  WeightView second;
  KVD_CHECK_OK(visitor.MatrixStack(block.Name("time_mix_w2"), rwkv.mix_rank, block.width(),
                                   weights.mix_second.size(), Presence::kRequired, second));
  for (std::size_t i = 0; second && i < weights.mix_second.size(); ++i) {
    WeightView& part = weights.mix_second[i].weight;
    part = second;
    part.out_features = block.width();
    part.data += i * block.width() * kernels::RowBytes(second.type, second.in_features);
  }
  const std::uint64_t heads[] = {rwkv.head_size, block.width() / rwkv.head_size};
  KVD_CHECK_OK(visitor.Floats(block.Name("time_mix_first"), heads, VectorRole::kBias,
                              Presence::kRequired, weights.first));
  KVD_CHECK_OK(block.Numbers("time_mix_decay", VectorRole::kBias, weights.decay));
  KVD_CHECK_OK(block.Pair("time_mix_decay_w", rwkv.decay_rank, weights.decay_lora));
  KVD_CHECK_OK(block.Square("time_mix_key", weights.key));
  KVD_CHECK_OK(block.Square("time_mix_value", weights.value));
  KVD_CHECK_OK(block.Square("time_mix_receptance", weights.receptance));
  KVD_CHECK_OK(block.Square("time_mix_gate", weights.gate));
  KVD_CHECK_OK(block.Norm("time_mix_ln", weights.group_norm));
  return block.Square("time_mix_output", weights.out);
}

Status VisitTimeMix7(const ModelConfig& config, TensorVisitor& visitor, Block& block, bool is_first,
                     Rwkv7TimeMix& weights) {
  const RwkvConfig& rwkv = config.rwkv;
  KVD_CHECK_OK(block.Norm("attn_norm", weights.norm));
  const float* mixes = nullptr;
  const std::uint64_t dims[] = {block.width(), 1, 1, weights.mix.size()};
  KVD_CHECK_OK(visitor.Floats(block.Name("time_mix_lerp_fused"), dims, VectorRole::kMix,
                              Presence::kRequired, mixes));
  for (std::size_t i = 0; mixes != nullptr && i < weights.mix.size(); ++i) {
    weights.mix[i] = mixes + i * block.width();
  }
  KVD_CHECK_OK(block.Numbers("time_mix_w0", VectorRole::kBias, weights.w0));
  KVD_CHECK_OK(block.Pair("time_mix_w", rwkv.decay_rank, weights.w));
  KVD_CHECK_OK(block.Numbers("time_mix_a0", VectorRole::kBias, weights.a0));
  KVD_CHECK_OK(block.Pair("time_mix_a", rwkv.rate_rank, weights.a));
  if (is_first) {
    // The first layer has no earlier layer whose values it could mix in.
    for (const char* name : {"time_mix_v0", "time_mix_v1", "time_mix_v2"}) {
      KVD_CHECK_OK(visitor.Ignore(block.Name(name)));
    }
  } else {
    KVD_CHECK_OK(block.Numbers("time_mix_v0", VectorRole::kBias, weights.v0));
    KVD_CHECK_OK(block.Pair("time_mix_v", rwkv.value_rank, weights.v));
  }
  KVD_CHECK_OK(block.Pair("time_mix_g", rwkv.gate_rank, weights.g));
  KVD_CHECK_OK(block.Numbers("time_mix_k_k", VectorRole::kNorm, weights.k_k));
  KVD_CHECK_OK(block.Numbers("time_mix_k_a", VectorRole::kNorm, weights.k_a));
  KVD_CHECK_OK(block.Numbers("time_mix_r_k", VectorRole::kBias, weights.r_k));
  KVD_CHECK_OK(block.Square("time_mix_key", weights.key));
  KVD_CHECK_OK(block.Square("time_mix_value", weights.value));
  KVD_CHECK_OK(block.Square("time_mix_receptance", weights.receptance));
  KVD_CHECK_OK(block.Norm("time_mix_ln", weights.group_norm));
  return block.Square("time_mix_output", weights.out);
}

Status VisitChannelMix(const ModelConfig& config, Block& block, std::size_t layer,
                       RwkvChannelMix& weights) {
  const std::uint64_t hidden = config.feed_forward_size[layer];
  KVD_CHECK_OK(block.Norm("attn_norm_2", weights.norm));
  KVD_CHECK_OK(block.Numbers("channel_mix_lerp_k", VectorRole::kMix, weights.mix_k));
  KVD_CHECK_OK(block.Matrix("channel_mix_key", block.width(), hidden, weights.key));
  KVD_CHECK_OK(block.Matrix("channel_mix_value", hidden, block.width(), weights.value));
  if (config.architecture == Architecture::kRwkv7) return {};
  KVD_CHECK_OK(block.Numbers("channel_mix_lerp_r", VectorRole::kMix, weights.mix_r));
  return block.Square("channel_mix_receptance", weights.receptance);
}

Status VisitRwkv(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  KVD_CHECK_OK(
      VisitLayerNorm(visitor, "token_embd_norm", config.embedding_size, weights.embedding_norm));
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    LayerWeights& into = weights.layers[layer];
    Block block(config, visitor, layer);
    KVD_CHECK_OK(config.architecture == Architecture::kRwkv6
                     ? VisitTimeMix6(config, visitor, block, into.rwkv6)
                     : VisitTimeMix7(config, visitor, block, layer == 0, into.rwkv7));
    KVD_CHECK_OK(VisitChannelMix(config, block, layer, into.channel_mix));
  }
  NormWeights norm;
  KVD_CHECK_OK(VisitLayerNorm(visitor, "output_norm", config.embedding_size, norm));
  weights.output_norm = norm.weight;
  weights.output_norm_bias = norm.bias;
  return VisitOutputMatrix(config, visitor, BiasRule::kNone, weights);
}

std::size_t TimeMixStateFloats(const ModelConfig& config, std::size_t) {
  return RwkvStateFloats(config);
}

void BeginRwkv(ForwardPass& pass) { NormStream(pass, pass.weights().embedding_norm); }

void RunRwkvLayer(ForwardPass& pass, std::size_t layer) {
  const LayerWeights& weights = pass.weights().layers[layer];
  if (pass.config().architecture == Architecture::kRwkv6) {
    RunRwkv6TimeMix(pass, layer, weights.rwkv6);
  } else {
    RunRwkv7TimeMix(pass, layer, weights.rwkv7);
  }
  RunRwkvChannelMix(pass, layer, weights.channel_mix);
  const std::uint32_t period = pass.config().rwkv.halving_period;
  if (period == 0 || (layer + 1) % period != 0) return;
  // The stream is halved after every halving_period layers, so that it stays within f16; the
  // weights in the file are scaled for the halving.
  for (std::size_t row = 0; row < pass.row_count(); ++row) {
    float* stream = pass.stream()[row];
    pass.compute().kernels->scale(stream, 0.5f, pass.config().embedding_size, stream);
  }
}

void FinalNorm(ForwardPass& pass, std::span<const float* const> rows, float* const* out) {
  NormRows(pass, rows, {pass.weights().output_norm, pass.weights().output_norm_bias}, out);
}

constexpr ArchitectureDefinition DefineRwkv(Architecture architecture, std::string_view name,
                                            Status (*read_config)(const ConfigReader&,
                                                                  ModelConfig&)) {
  return {.format = {.architecture = architecture,
                     .name = name,
                     .read_config = read_config,
                     .visit_tensors = VisitRwkv,
                     .state_kind = architecture == Architecture::kRwkv6 ? StateKind::kRwkv6
                                                                        : StateKind::kRwkv7,
                     .state_floats = TimeMixStateFloats},
          .run_layer = RunRwkvLayer,
          .begin = BeginRwkv,
          .final_norm = FinalNorm};
}

}  // namespace

const ArchitectureDefinition kRwkv6Definition =
    DefineRwkv(Architecture::kRwkv6, "rwkv6", ReadRwkv6);
const ArchitectureDefinition kRwkv7Definition =
    DefineRwkv(Architecture::kRwkv7, "rwkv7", ReadRwkv7);

}  // namespace kvd
