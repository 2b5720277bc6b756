// Weights of a Mamba mixer: Mamba (selective scan per channel) or Mamba-2 (scan per head).
#pragma once

#include "engine/model/weight_view.h"

namespace kvd {

struct MambaWeights {
  const float* norm = nullptr;  // [embedding_size]: norm of the layer's input
  // Mamba: embedding_size -> x | z, each inner_size. Mamba-2: embedding_size -> z | x | B | C | dt.
  LinearView in;
  const float* taps = nullptr;       // [convolved channels, conv_width]
  const float* conv_bias = nullptr;  // [convolved channels] or null
  LinearView x;                      // Mamba: inner_size -> dt | B | C
  LinearView dt;                     // Mamba: time_step_rank -> inner_size
  const float* dt_bias = nullptr;    // Mamba: [inner_size]; Mamba-2: [heads]
  const float* dt_norm = nullptr;    // [time_step_rank] or null; RMS norms of dt, B and C (jamba)
  const float* b_norm = nullptr;     // [state_size]
  const float* c_norm = nullptr;     // [state_size]
  const float* a = nullptr;          // Mamba: [inner_size, state_size]; Mamba-2: [heads]; negative
  const float* d = nullptr;          // Mamba: [inner_size]; Mamba-2: [heads]
  const float* out_norm = nullptr;   // Mamba-2: [inner_size], normed by groups; or null
  LinearView out;                    // inner_size -> embedding_size
};

}  // namespace kvd
