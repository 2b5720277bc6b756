#include "engine/forward/architectures/expert_tensors.h"

#include <string>

#include "base/text.h"

namespace kvd {
namespace {

// Appends the matrices of `count` experts that are stored one after the other.
void Append(const WeightView& all, std::size_t count, ExpertMatrices& target) {
  if (!all) return;  // the visitor only lists tensors
  target.shape = all;
  target.shape.data = nullptr;
  target.shape.out_features = all.out_features / count;
  const std::size_t bytes =
      target.shape.out_features * kernels::RowBytes(all.type, all.in_features);
  for (std::size_t i = 0; i < count; ++i) target.data.push_back(all.data + i * bytes);
}

// STACKED.bias [out, count].
Status VisitExpertBias(TensorVisitor& visitor, const std::string& stacked,
                       std::uint64_t out_features, std::uint64_t count, ExpertMatrices& target) {
  const std::uint64_t dims[] = {out_features, count};
  target.bias_stride = out_features;
  return visitor.Floats(stacked + ".bias", dims, VectorRole::kBias, Presence::kRequired,
                        target.bias);
}

// BLOCKNAME_exps.weight [in, out, count], or BLOCKNAME.E.weight for each expert (files of 2023).
Status VisitMatrices(TensorVisitor& visitor, const std::string& name, std::uint64_t in_features,
                     std::uint64_t out_features, std::uint64_t count, bool has_bias,
                     ExpertMatrices& target) {
  if (visitor.Has(name + ".0.weight")) {
    for (std::uint64_t expert = 0; expert < count; ++expert) {
      const std::string own_name = Concat(name, ".", expert, ".weight");
      WeightView own;
      KVD_CHECK_OK(visitor.Matrix(own_name, in_features, out_features, Presence::kRequired, own));
      if (expert != 0 && own.type != target.shape.type) {
        return Fail(Code::kUnsupported, "tensor ", own_name, ": is ",
                    kernels::DataTypeName(own.type), ", that of expert 0 is ",
                    kernels::DataTypeName(target.shape.type));
      }
      Append(own, 1, target);
    }
    return {};
  }
  const std::string stacked = name + "_exps";
  WeightView all;
  KVD_CHECK_OK(visitor.MatrixStack(stacked + ".weight", in_features, out_features, count,
                                   Presence::kRequired, all));
  Append(all, count, target);
  if (has_bias) KVD_CHECK_OK(VisitExpertBias(visitor, stacked, out_features, count, target));
  return visitor.Vector(stacked + ".scale", count, VectorRole::kNorm, Presence::kOptional,
                        target.scales);
}

// The biases of fused experts: one tensor as the weights, or a tensor each for gate and up. The
// converters of llama.cpp keep the biases apart if they fuse the weights.
Status VisitFusedBiases(TensorVisitor& visitor, const std::string& block,
                        const ExpertConfig& config, ExpertWeights& weights) {
  const std::string fused = block + "ffn_gate_up_exps";
  if (!visitor.Has(fused + ".bias")) {
    KVD_CHECK_OK(
        VisitExpertBias(visitor, block + "ffn_gate_exps", config.size, config.count, weights.gate));
    return VisitExpertBias(visitor, block + "ffn_up_exps", config.size, config.count, weights.up);
  }
  KVD_CHECK_OK(VisitExpertBias(visitor, fused, 2ull * config.size, config.count, weights.gate));
  weights.up.bias_stride = weights.gate.bias_stride;
  weights.up.bias = weights.gate.bias + config.size;
  return {};
}

// ffn_gate_up_exps: each expert has the rows of its gate followed by the rows of up.
Result<bool> VisitFusedGate(TensorVisitor& visitor, const std::string& block,
                            const ExpertConfig& config, bool has_bias, ExpertWeights& weights) {
  const std::string name = block + "ffn_gate_up_exps";
  if (!visitor.Has(name + ".weight")) return false;
  WeightView all;
  KVD_CHECK_OK(visitor.MatrixStack(name + ".weight", config.input_size, 2ull * config.size,
                                   config.count, Presence::kRequired, all));
  KVD_CHECK_OK(visitor.Vector(name + ".scale", config.count, VectorRole::kNorm, Presence::kOptional,
                              weights.gate.scales));
  weights.up.scales = weights.gate.scales;
  Append(all, config.count, weights.gate);
  Append(all, config.count, weights.up);
  const std::size_t half = config.size * kernels::RowBytes(all.type, config.input_size);
  for (const std::byte*& data : weights.up.data) data += half;
  weights.gate.shape.out_features = weights.up.shape.out_features = config.size;
  if (has_bias) KVD_CHECK_OK(VisitFusedBiases(visitor, block, config, weights));
  return true;
}

Status VisitShared(const ModelConfig& config, TensorVisitor& visitor, const std::string& block,
                   const ExpertTensors& options, ExpertWeights& weights) {
  const std::uint64_t embedding = config.embedding_size, size = config.experts.shared_size;
  const auto visit = [&](const char* name, std::uint64_t in, std::uint64_t out,
                         LinearView& target) {
    return VisitLinear(visitor, block + name, in, out, BiasRule::kNone, ScaleRule::kBeforeBias,
                       target);
  };
  if (options.is_gated) {
    KVD_CHECK_OK(visit("ffn_gate_shexp", embedding, size, weights.shared.gate));
  }
  KVD_CHECK_OK(visit("ffn_up_shexp", embedding, size, weights.shared.up));
  KVD_CHECK_OK(visit("ffn_down_shexp", size, embedding, weights.shared.down));
  if (!options.has_shared_gate) return {};
  return visitor.Vector(block + "ffn_gate_inp_shexp.weight", embedding, VectorRole::kNorm,
                        Presence::kRequired, weights.shared_gate);
}

}  // namespace

Status VisitExperts(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                    const ExpertTensors& options, ExpertWeights& weights) {
  const std::string block = BlockPrefix(layer);
  const ExpertConfig& experts = config.experts;
  const std::uint64_t embedding = config.embedding_size, input = experts.input_size;
  KVD_CHECK_OK(VisitLinear(visitor, block + "ffn_gate_inp", embedding, experts.count,
                           options.has_bias ? BiasRule::kOptional : BiasRule::kNone,
                           ScaleRule::kIgnored, weights.router));
  if (options.has_selection_bias) {
    KVD_CHECK_OK(visitor.Vector(block + "exp_probs_b.bias", experts.count, VectorRole::kBias,
                                Presence::kOptional, weights.selection_bias));
  }
  if (input != embedding) {
    KVD_CHECK_OK(VisitLinear(visitor, block + "ffn_latent_down", embedding, input, BiasRule::kNone,
                             ScaleRule::kBeforeBias, weights.latent_down));
    KVD_CHECK_OK(VisitLinear(visitor, block + "ffn_latent_up", input, embedding, BiasRule::kNone,
                             ScaleRule::kBeforeBias, weights.latent_up));
  }
  KVD_TRY(const bool is_fused, VisitFusedGate(visitor, block, experts, options.has_bias, weights));
  if (!is_fused) {
    if (options.is_gated) {
      KVD_CHECK_OK(VisitMatrices(visitor, block + "ffn_gate", input, experts.size, experts.count,
                                 options.has_bias, weights.gate));
    }
    KVD_CHECK_OK(VisitMatrices(visitor, block + "ffn_up", input, experts.size, experts.count,
                               options.has_bias, weights.up));
  }
  KVD_CHECK_OK(VisitMatrices(visitor, block + "ffn_down", experts.size, input, experts.count,
                             options.has_bias, weights.down));
  if (experts.shared_size == 0) return {};
  return VisitShared(config, visitor, block, options, weights);
}

}  // namespace kvd
