#include "tests/reference/convolution.h"

namespace kvd::reference {

Vector Convolution::operator()(const Vector& input, RecurrentState& state) const {
  const std::size_t width = taps.columns;
  if (state.recent.empty()) state.recent.assign(width - 1, Vector(input.size(), 0.0));
  state.recent.push_back(input);
  Vector output = bias.empty() ? Vector(input.size(), 0.0) : bias;
  for (std::size_t channel = 0; channel < input.size(); ++channel) {
    for (std::size_t tap = 0; tap < width; ++tap) {
      output[channel] += taps(channel, tap) * state.recent[tap][channel];
    }
  }
  state.recent.erase(state.recent.begin());
  return output;
}

}  // namespace kvd::reference
