// Names and shapes are those of llama.cpp (src/models/mamba.cpp, mamba2.cpp).
#include "engine/forward/architectures/mamba_parts.h"

#include <array>
#include <string>

#include "engine/forward/architectures/common_tensors.h"

namespace kvd {
namespace {

Status VisitConvolution(const ModelConfig& config, TensorVisitor& visitor, const std::string& block,
                        std::uint64_t channels, Presence bias, MambaWeights& weights) {
  const std::array<std::uint64_t, 2> taps = {config.ssm.conv_width, channels};
  KVD_CHECK_OK(visitor.Floats(block + "ssm_conv1d.weight", taps, VectorRole::kTaps,
                              Presence::kRequired, weights.taps));
  return visitor.Vector(block + "ssm_conv1d.bias", channels, VectorRole::kBias, bias,
                        weights.conv_bias);
}

}  // namespace

Status ReadSsm(const ConfigReader& reader, MambaKind kind, ModelConfig& config) {
  SsmConfig& ssm = config.ssm;
  KVD_TRY(ssm.conv_width, reader.Count("ssm.conv_kernel", ModelConfig::kConvolutionWidthMax));
  if (ssm.conv_width < 2) {
    return FailRange(reader.Key("ssm.conv_kernel"), ssm.conv_width, 2,
                     ModelConfig::kConvolutionWidthMax);
  }
  KVD_TRY(ssm.inner_size, reader.Count("ssm.inner_size", ModelConfig::kFeedForwardSizeMax));
  KVD_TRY(ssm.state_size, reader.Count("ssm.state_size", ModelConfig::kHeadDimMax));
  KVD_TRY(ssm.time_step_rank, reader.Count("ssm.time_step_rank", ModelConfig::kEmbeddingSizeMax));
  ssm.group_count = 1;
  if (kind == MambaKind::kFirst) return {};
  KVD_TRY(ssm.group_count, reader.Count("ssm.group_count", ModelConfig::kHeadCountMax));
  if (ssm.inner_size % ssm.time_step_rank != 0) {
    return Fail(Code::kCorrupt, reader.Key("ssm.inner_size"), ": ", ssm.inner_size,
                " is not a multiple of the ", ssm.time_step_rank, " heads");
  }
  if (ssm.time_step_rank % ssm.group_count != 0) {
    return Fail(Code::kCorrupt, reader.Key("ssm.group_count"), ": ", ssm.group_count,
                " does not divide the ", ssm.time_step_rank, " heads");
  }
  return {};
}

Status VisitMamba(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                  MambaNorms norms, MambaWeights& weights) {
  const std::string block = BlockPrefix(layer);
  const SsmConfig& ssm = config.ssm;
  const std::uint64_t embedding = config.embedding_size, inner = ssm.inner_size;
  const std::uint64_t states = ssm.state_size, rank = ssm.time_step_rank;
  KVD_CHECK_OK(VisitNorm(visitor, block + "attn_norm", embedding, weights.norm));
  KVD_CHECK_OK(VisitLinear(visitor, block + "ssm_in", embedding, 2 * inner, BiasRule::kNone,
                           ScaleRule::kBeforeBias, weights.in));
  KVD_CHECK_OK(VisitConvolution(config, visitor, block, inner, Presence::kRequired, weights));
  KVD_CHECK_OK(visitor.Matrix(block + "ssm_x.weight", inner, rank + 2 * states, Presence::kRequired,
                              weights.x.weight));
  if (norms == MambaNorms::kRequired) {
    KVD_CHECK_OK(VisitNorm(visitor, block + "ssm_dt_norm", rank, weights.dt_norm));
    KVD_CHECK_OK(VisitNorm(visitor, block + "ssm_b_norm", states, weights.b_norm));
    KVD_CHECK_OK(VisitNorm(visitor, block + "ssm_c_norm", states, weights.c_norm));
  }
  KVD_CHECK_OK(
      visitor.Matrix(block + "ssm_dt.weight", rank, inner, Presence::kRequired, weights.dt.weight));
  KVD_CHECK_OK(visitor.Vector(block + "ssm_dt.bias", inner, VectorRole::kBias, Presence::kRequired,
                              weights.dt.bias));
  const std::array<std::uint64_t, 2> a = {states, inner};
  KVD_CHECK_OK(
      visitor.Floats(block + "ssm_a", a, VectorRole::kDecayScale, Presence::kRequired, weights.a));
  KVD_CHECK_OK(
      visitor.Vector(block + "ssm_d", inner, VectorRole::kNorm, Presence::kRequired, weights.d));
  return VisitLinear(visitor, block + "ssm_out", inner, embedding, BiasRule::kNone,
                     ScaleRule::kBeforeBias, weights.out);
}

Status VisitMamba2(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                   bool has_norm, MambaWeights& weights) {
  const std::string block = BlockPrefix(layer);
  const SsmConfig& ssm = config.ssm;
  const std::uint64_t embedding = config.embedding_size, inner = ssm.inner_size;
  const std::uint64_t heads = ssm.time_step_rank, channels = ssm.convolved_channels();
  if (has_norm) {
    KVD_CHECK_OK(VisitNorm(visitor, block + "attn_norm", embedding, weights.norm));
  }
  KVD_CHECK_OK(VisitLinear(visitor, block + "ssm_in", embedding, inner + channels + heads,
                           BiasRule::kNone, ScaleRule::kBeforeBias, weights.in));
  KVD_CHECK_OK(VisitConvolution(config, visitor, block, channels, Presence::kOptional, weights));
  KVD_CHECK_OK(visitor.Vector(block + "ssm_dt.bias", heads, VectorRole::kBias, Presence::kRequired,
                              weights.dt_bias));
  const std::array<std::uint64_t, 2> by_head = {1, heads};
  KVD_CHECK_OK(visitor.Floats(block + "ssm_a", by_head, VectorRole::kDecayScale,
                              Presence::kRequired, weights.a));
  KVD_CHECK_OK(
      visitor.Floats(block + "ssm_d", by_head, VectorRole::kNorm, Presence::kRequired, weights.d));
  const std::array<std::uint64_t, 2> groups = {inner / ssm.group_count, ssm.group_count};
  KVD_CHECK_OK(visitor.Floats(block + "ssm_norm.weight", groups, VectorRole::kNorm,
                              Presence::kRequired, weights.out_norm));
  return VisitLinear(visitor, block + "ssm_out", inner, embedding, BiasRule::kNone,
                     ScaleRule::kBeforeBias, weights.out);
}

}  // namespace kvd
