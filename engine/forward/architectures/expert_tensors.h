// The tensors of a mixture of experts. Names and shapes are those of llama.cpp
// (src/llama-arch.cpp).
#pragma once

#include <cstddef>

#include "engine/forward/architectures/common_tensors.h"
#include "engine/model/model_tensors.h"

namespace kvd {

struct ExpertTensors {
  bool has_bias = false;            // of the router and of the experts
  bool has_selection_bias = false;  // exp_probs_b.bias; optional, because older files lack it
  bool is_gated = true;
  bool has_shared_gate = false;  // ffn_gate_inp_shexp
};

// ffn_gate_inp, exp_probs_b, ffn_{gate,up,down}_exps (or ffn_gate_up_exps, or a tensor for each
// expert), ffn_latent_{down,up}, ffn_{gate,up,down}_shexp. REQUIRES: config.has_experts[layer].
Status VisitExperts(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                    const ExpertTensors& options, ExpertWeights& weights);

}  // namespace kvd
