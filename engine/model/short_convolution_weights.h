// Weights of a gated short convolution.
#pragma once

#include "engine/model/weight_view.h"

namespace kvd {

struct ShortConvolutionWeights {
  const float* norm = nullptr;  // [embedding_size]: norm of the layer's input
  LinearView in;                // embedding_size -> 3 * embedding_size: B, C and x
  const float* taps = nullptr;  // [embedding_size, width]
  LinearView out;               // embedding_size -> embedding_size
};

}  // namespace kvd
