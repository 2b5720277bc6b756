// A feed-forward and experts side by side, each with norms of its own.
#pragma once

#include "engine/forward/layers/feed_forward.h"
#include "engine/forward/pass/forward_pass.h"
#include "engine/model/model_weights.h"

namespace kvd {

// stream += PostNorm(FeedForwardNorm(FeedForward(Norm(stream))) + ExpertNorm(Experts(...))). The
// experts read the stream after a norm of their own. The router reads the stream after another
// norm, divided by sqrt(embedding_size). The post norm is feed_forward.post_norm.
void RunFeedForwardAndExperts(ForwardPass& pass, const LayerWeights& weights,
                              Activation activation);

}  // namespace kvd
