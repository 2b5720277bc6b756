#include "engine/layers/feed_forward.h"

#include <cmath>

namespace kvd {
namespace {

float Gelu(float x) {
  constexpr float kSqrt2OverPi = 0.79788456080286535588f;
  return 0.5f * x * (1.0f + std::tanh(kSqrt2OverPi * x * (1.0f + 0.044715f * x * x)));
}

}  // namespace

void RunFeedForwardOn(ForwardPass& pass, std::size_t layer, const FeedForwardWeights& weights,
                      Activation activation, const RowBuffer& x) {
  const std::size_t width = pass.config().feed_forward_size[layer];
  const RowBuffer& gate = pass.Rows(Scratch::kGate, width);
  const RowBuffer& up = pass.Rows(Scratch::kUp, width);
  const auto job = [&](const LinearView& linear, const RowBuffer& y) {
    return LinearJob{.linear = &linear, .x = x[0], .x_stride = x.width(), .y = y.pointers()};
  };
  const LinearJob projections[] = {job(weights.gate, gate), job(weights.up, up)};
  RunLinear(pass.compute(), projections, pass.row_count());
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      if (activation == Activation::kSilu) {
        pass.compute().kernels->silu_multiply(gate[row], up[row], width, gate[row]);
      } else {
        for (std::size_t i = 0; i < width; ++i) gate[row][i] = Gelu(gate[row][i]) * up[row][i];
      }
    }
  });
  pass.AddToStream(weights.down, gate, weights.post_norm);
}

void RunFeedForward(ForwardPass& pass, std::size_t layer, const FeedForwardWeights& weights,
                    Activation activation) {
  RunFeedForwardOn(pass, layer, weights, activation, pass.NormedStream(weights.norm));
}

}  // namespace kvd
