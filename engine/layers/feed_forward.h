// The feed-forward layer, gated or not.
#pragma once

#include <cstddef>

#include "engine/forward_pass.h"
#include "engine/layers/feed_forward_weights.h"

namespace kvd {

enum class Activation : std::uint8_t {
  kSilu,
  kGelu,  // the tanh form (Hendrycks and Gimpel 2016)
  kRelu,  // without a gate: max(0, Up(x)) goes into Down
};

// stream += residual_scale * PostNorm(Down(activation(Gate(x)) * Up(x))), x = rms_norm(stream)
// (Shazeer 2020)
void RunFeedForward(ForwardPass& pass, std::size_t layer, const FeedForwardWeights& weights,
                    Activation activation);
// The same of other rows: stream += ... of x.
void RunFeedForwardOn(ForwardPass& pass, std::size_t layer, const FeedForwardWeights& weights,
                      Activation activation, const RowBuffer& x);

}  // namespace kvd
