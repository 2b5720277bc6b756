// Weights of a Mamba mixer, of the first (selective scan per channel) or second (per head) kind.
#pragma once

#include "engine/weight_view.h"

namespace kvd {

struct MambaWeights {
  const float* norm = nullptr;  // [embedding_size]: of the layer's input
  // embedding_size -> x | z, each inner_size; of the second kind z | x | B | C | dt
  LinearView in;
  const float* taps = nullptr;       // [convolved channels, conv_width]
  const float* conv_bias = nullptr;  // [convolved channels] or null
  LinearView x;                      // inner_size -> dt | B | C (first kind)
  LinearView dt;                     // time_step_rank -> inner_size (first kind)
  const float* dt_bias = nullptr;    // [inner_size], of the second kind [heads]
  const float* dt_norm = nullptr;    // [time_step_rank] or null: RMS norms of dt, B and C (jamba)
  const float* b_norm = nullptr;     // [state_size]
  const float* c_norm = nullptr;     // [state_size]
  const float* a = nullptr;  // [inner_size, state_size], of the second kind [heads]; negative
  const float* d = nullptr;  // [inner_size], of the second kind [heads]
  const float* out_norm = nullptr;  // [inner_size] by groups, or null (second kind)
  LinearView out;                   // inner_size -> embedding_size
};

}  // namespace kvd
