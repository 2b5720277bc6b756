// Mixtures of experts (Shazeer et al. 2017; Fedus et al. 2021): each token passes through a few of
// a layer's many feed-forwards.
//
// All rows of a ubatch that chose the same expert go through it together, so the weights of each
// chosen expert are read once per step. Each row's result depends only on its own content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/forward/layers/feed_forward.h"
#include "engine/forward/pass/forward_pass.h"
#include "engine/forward/pass/row_buffer.h"
#include "engine/model/expert_config.h"
#include "engine/model/layer_weights.h"
#include "engine/model/model_weights.h"

namespace kvd {

// The router's choice: which experts process a token, and the weights of their results.

// Chooses chosen.size() experts, the most probable first; of equally probable experts the expert
// with the lower number first. selection_bias: [count], added to the probabilities for the choice
// only, or null. `probabilities` and `selection` are scratch. The choice and the weights have the
// same bits on every machine. If a logit is NaN, the choice is arbitrary, but consists of valid
// experts. REQUIRES: logits, probabilities and selection have config.count elements, chosen
// config.used.
void ChooseExperts(const ExpertConfig& config, std::span<const float> logits,
                   const float* selection_bias, std::span<float> probabilities,
                   std::span<float> selection, std::span<ChosenExpert> chosen);

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

// A feed-forward and experts side by side, each with norms of its own.

// stream += PostNorm(FeedForwardNorm(FeedForward(Norm(stream))) + ExpertNorm(Experts(...))). The
// experts read the stream after a norm of their own. The router reads the stream after another
// norm, divided by sqrt(embedding_size). The post norm is feed_forward.post_norm.
void RunFeedForwardAndExperts(ForwardPass& pass, const LayerWeights& weights,
                              Activation activation);

}  // namespace kvd
