#include "engine/forward/layers/feed_forward.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/forward/compute/row_functions.h"
#include "engine/forward/compute/step_profile.h"

namespace kvd {
namespace {

void ClampedSilu(const float* up, std::size_t n, float* y) {
  constexpr float kLimit = 7.0f, kAlpha = 1.702f;
  for (std::size_t i = 0; i < n; ++i) {
    const float g = std::min(y[i], kLimit);
    const float u = std::clamp(up[i], -kLimit, kLimit);
    y[i] = g * Logistic(kAlpha * g) * (u + 1.0f);
  }
}

// The GELU kernel multiplies by a second factor, which is 1 in UngatedGelu.
void UngatedGelu(const kernels::KernelTable& kernels, const float* x, std::size_t n, float* y) {
  constexpr std::size_t kBlock = 64;
  constexpr auto kOnes = [] {
    std::array<float, kBlock> ones{};
    ones.fill(1.0f);
    return ones;
  }();
  for (std::size_t i = 0; i < n; i += kBlock) {
    kernels.gelu_multiply(x + i, kOnes.data(), std::min(kBlock, n - i), y + i);
  }
}

// Subtracts from each gate the mean of the row plus kSparsity standard deviations, and replaces
// negative gates by 0. Of a normal distribution, about the largest twentieth remains (Gemma Team
// 2025, Gemma 3n).
void Sparsen(std::size_t n, float* gate) {
  constexpr float kSparsity = 1.6448536f;
  double sum = 0.0, squares = 0.0;
  for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(gate[i]);
  const double mean = sum / static_cast<double>(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double distance = static_cast<double>(gate[i]) - mean;
    squares += distance * distance;
  }
  const double deviation = n < 2 ? 0.0 : std::sqrt(squares / static_cast<double>(n - 1));
  const float limit = static_cast<float>(mean) + kSparsity * static_cast<float>(deviation);
  for (std::size_t i = 0; i < n; ++i) gate[i] = std::max(0.0f, gate[i] - limit);
}

}  // namespace

bool IsGated(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
    case Activation::kGelu:
    case Activation::kSparseGelu:
    case Activation::kClampedSilu: return true;
    case Activation::kUngatedGelu:
    case Activation::kRelu:
    case Activation::kSquaredRelu: return false;
  }
  return true;
}

void Activate(const kernels::KernelTable& kernels, Activation activation, const float* up,
              std::size_t n, float* y) {
  switch (activation) {
    case Activation::kSilu: return kernels.silu_multiply(y, up, n, y);
    case Activation::kGelu: return kernels.gelu_multiply(y, up, n, y);
    case Activation::kUngatedGelu: return UngatedGelu(kernels, up, n, y);
    case Activation::kSparseGelu: Sparsen(n, y); return kernels.gelu_multiply(y, up, n, y);
    case Activation::kRelu: return Relu(up, n, y);
    case Activation::kSquaredRelu: return SquaredRelu(up, n, y);
    case Activation::kClampedSilu: return ClampedSilu(up, n, y);
  }
}

const RowBuffer& HiddenRows(ForwardPass& pass, const FeedForwardWeights& weights,
                            Activation activation, const RowBuffer& x) {
  const std::size_t width = weights.up.weight.out_features;
  const RowBuffer& up = pass.Rows(Scratch::kUp, {width});
  const bool is_gated = IsGated(activation);
  const RowBuffer& hidden = is_gated ? pass.Rows(Scratch::kGate, {width}) : up;
  const auto job = [&](const LinearView& linear, const RowBuffer& y) {
    return LinearJob{.linear = &linear, .x = x[0], .x_stride = x.width(), .y = y.pointers()};
  };
  const LinearJob projections[] = {job(weights.up, up), job(weights.gate, hidden)};
  RunLinear(pass.compute(), std::span(projections).first(is_gated ? 2 : 1), pass.row_count());
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      Activate(*pass.compute().kernels, activation, up[row], width, hidden[row]);
    }
  });
  return hidden;
}

void RunFeedForwardOn(ForwardPass& pass, const FeedForwardWeights& weights, Activation activation,
                      const RowBuffer& x) {
  const StepProfile::Scope scope(pass.compute().profile, StepPhase::kFeedForward);
  pass.AddToStream(weights.down, HiddenRows(pass, weights, activation, x), weights.post_norm);
}

void RunFeedForward(ForwardPass& pass, const FeedForwardWeights& weights, Activation activation) {
  RunFeedForwardOn(pass, weights, activation, pass.NormedStream(weights.norm));
}

}  // namespace kvd
