// Weights of a feed-forward layer.
#pragma once

#include "engine/weight_view.h"

namespace kvd {

struct FeedForwardWeights {
  const float* norm = nullptr;       // [embedding_size]: of the layer's input
  LinearView gate;                   // embedding_size -> feed_forward_size; or empty
  LinearView up;                     // embedding_size -> feed_forward_size
  LinearView down;                   // feed_forward_size -> embedding_size
  const float* post_norm = nullptr;  // [embedding_size] of what goes into the stream; or null
};

}  // namespace kvd
