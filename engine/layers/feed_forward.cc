#include "engine/layers/feed_forward.h"

#include "engine/layers/activations.h"
#include "engine/step_profile.h"

namespace kvd {
namespace {

void RunUngated(ForwardPass& pass, std::size_t layer, const FeedForwardWeights& weights,
                const RowBuffer& x) {
  const std::size_t width = pass.config().feed_forward_size[layer];
  const RowBuffer& up = pass.Rows(Scratch::kUp, width);
  pass.Project(weights.up, x, up);
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) Relu(up[row], width, up[row]);
  });
  pass.AddToStream(weights.down, up, weights.post_norm);
}

}  // namespace

void RunFeedForwardOn(ForwardPass& pass, std::size_t layer, const FeedForwardWeights& weights,
                      Activation activation, const RowBuffer& x) {
  const StepProfile::Scope scope(pass.compute().profile, StepPart::kFeedForward);
  if (activation == Activation::kRelu) return RunUngated(pass, layer, weights, x);
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
      const kernels::KernelTable& kernels = *pass.compute().kernels;
      const auto multiply =
          activation == Activation::kSilu ? kernels.silu_multiply : kernels.gelu_multiply;
      multiply(gate[row], up[row], width, gate[row]);
    }
  });
  pass.AddToStream(weights.down, gate, weights.post_norm);
}

void RunFeedForward(ForwardPass& pass, std::size_t layer, const FeedForwardWeights& weights,
                    Activation activation) {
  RunFeedForwardOn(pass, layer, weights, activation, pass.NormedStream(weights.norm));
}

}  // namespace kvd
