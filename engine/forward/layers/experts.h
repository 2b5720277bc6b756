// Mixtures of experts (Shazeer et al. 2017; Fedus et al. 2021): each token passes through a few of
// a layer's many feed-forwards.
//
// All rows of a ubatch that chose the same expert go through it together, so the weights of each
// chosen expert are read once per step. Each row's result depends only on its own content.
#pragma once

#include <cstddef>

#include "engine/forward/layers/feed_forward.h"
#include "engine/forward/pass/forward_pass.h"
#include "engine/model/expert_weights.h"

namespace kvd {

// The weighted sum of the experts' results, [rows, input_size], in Scratch::kExpertSum:
//   sum over the chosen experts e of weight[e] * f_e(x),
//   or with ExpertConfig::weighs_inputs, sum over the chosen experts e of f_e(weight[e] * x),
//   with f_e(x) = Down_e(activation(Gate_e(x)) * Up_e(x)).
// The router reads router_input, and the experts read x.
const RowBuffer& RunExperts(ForwardPass& pass, const ExpertWeights& weights, Activation activation,
                            const RowBuffer& router_input, const RowBuffer& x);

// stream += residual_scale * (experts(x) + shared expert(x)). With latent experts, the experts read
// LatentDown(x) and their sum goes through LatentUp.
void RunExpertLayer(ForwardPass& pass, const ExpertWeights& weights, Activation activation,
                    const RowBuffer& x);

}  // namespace kvd
