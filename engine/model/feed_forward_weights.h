// Weights of a feed-forward layer.
#pragma once

#include "engine/model/weight_view.h"

namespace kvd {

struct FeedForwardWeights {
  NormWeights norm;                  // [embedding_size]: norm of the layer's input; or none
  LinearView gate;                   // embedding_size -> feed_forward_size; empty without a gate
  LinearView up;                     // embedding_size -> feed_forward_size
  LinearView down;                   // feed_forward_size -> embedding_size
  const float* post_norm = nullptr;  // [embedding_size]: norm of the layer's output; or null
};

}  // namespace kvd
