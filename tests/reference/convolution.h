// A causal convolution of each channel: output = bias + sum over taps of tap * input. The last tap
// applies to the token's own input, the other taps to the inputs of the preceding tokens. Inputs
// before the first token are 0.
#pragma once

#include "tests/reference/linear_algebra.h"
#include "tests/reference/sequence.h"

namespace kvd::reference {

struct Convolution {
  Matrix taps;  // [channels, width]
  Vector bias;  // empty: none

  // Returns the output for the next token, and replaces the oldest input in state.recent by
  // `input`.
  Vector operator()(const Vector& input, RecurrentState& state) const;
};

}  // namespace kvd::reference
