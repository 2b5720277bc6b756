// The feed-forward layer, with or without a gate.
#pragma once

#include <cstddef>

#include "engine/forward/pass/forward_pass.h"
#include "engine/model/layer_weights.h"

namespace kvd {

enum class Activation : std::uint8_t {
  kSilu,
  kGelu,        // tanh approximation (Hendrycks and Gimpel 2016)
  kSparseGelu,  // kGelu for the largest gates of a row, 0 for its other gates
  // Without a gate:
  kUngatedGelu,  // as kGelu
  kRelu,         // max(0, Up(x))
  kSquaredRelu,  // max(0, Up(x))^2 (So et al. 2021)
  // g * logistic(1.702 g) * (u + 1) with g = min(Gate(x), 7), u = Up(x) clamped to [-7, 7]
  // (gpt-oss)
  kClampedSilu,
};

bool IsGated(Activation activation);

// y = activation(y) * up, n elements; without a gate y is `up`.
void Activate(const kernels::KernelTable& kernels, Activation activation, const float* up,
              std::size_t n, float* y);

// activation(Gate(x)) * Up(x), [rows, hidden], in Scratch::kGate, or in Scratch::kUp without a
// gate.
const RowBuffer& HiddenRows(ForwardPass& pass, const FeedForwardWeights& weights,
                            Activation activation, const RowBuffer& x);

// stream += residual_scale * PostNorm(Down(activation(Gate(x)) * Up(x))), with x = norm(stream)
// (Shazeer 2020).
void RunFeedForward(ForwardPass& pass, const FeedForwardWeights& weights, Activation activation);
// RunFeedForward with the rows of x instead of norm(stream).
void RunFeedForwardOn(ForwardPass& pass, const FeedForwardWeights& weights, Activation activation,
                      const RowBuffer& x);

}  // namespace kvd
