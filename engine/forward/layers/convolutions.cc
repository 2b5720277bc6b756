#include "engine/forward/layers/convolutions.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace kvd {

// ---- causal convolution
// A unit of work is a range of channels of one sequence.

namespace {

constexpr std::array<float, kUnitChannels> kZeros = {};

}  // namespace

void ConvolveChannels(const kernels::KernelTable& kernels, const CausalConvolution& convolution,
                      const ConvolvedRows& convolved, std::size_t first, std::size_t count) {
  KVD_ASSERT(count <= kUnitChannels);
  const std::size_t width = convolution.width;
  const std::size_t kept = width - 1;
  std::array<const float*, ModelConfig::kConvolutionWidthMax> before;
  for (std::size_t i = 0; i < kept; ++i) {
    before[i] = convolved.from == nullptr ? kZeros.data()
                                          : convolved.from + convolution.StateIndex(i, first);
  }
  kernels.convolve({.row_count = convolved.row_count,
                    .channel_count = count,
                    .width = width,
                    .taps = convolution.taps + first * width,
                    .bias = convolution.bias == nullptr ? nullptr : convolution.bias + first,
                    .before = before.data(),
                    .x = {convolved.x, convolved.x_first + first},
                    .y = convolved.y,
                    .y_first = first,
                    .is_activated = convolution.is_activated});
  for (std::size_t i = 0; i < kept; ++i) {
    const std::size_t row = convolved.row_count + i;
    const float* from =
        row < kept ? before[row] : convolved.x[row - kept] + convolved.x_first + first;
    std::copy_n(from, count, convolved.to + convolution.StateIndex(i, first));
  }
}

void RunCausalConvolution(ForwardPass& pass, std::size_t layer,
                          const CausalConvolution& convolution, const RowBuffer& x,
                          std::size_t x_first, const RowBuffer& y) {
  KVD_ASSERT(convolution.width >= 1 && convolution.width <= ModelConfig::kConvolutionWidthMax);
  const std::size_t channels = convolution.channels;
  const std::size_t ranges = (channels + kUnitChannels - 1) / kUnitChannels;
  const std::size_t operations = pass.row_count() * channels * convolution.width;
  pass.ForUnits(pass.sequences().size() * ranges, operations, [&](std::size_t index) {
    const std::size_t s = index / ranges;
    const std::size_t first = index % ranges * kUnitChannels;
    const LayerState state = pass.State(s, layer);
    const std::size_t count = std::min(kUnitChannels, channels - first);
    const SequenceRows& rows = pass.sequences()[s];
    const ConvolvedRows convolved{.x = x.pointers() + rows.first_row,
                                  .x_first = x_first,
                                  .y = y.pointers() + rows.first_row,
                                  .row_count = rows.row_count,
                                  .from = state.from,
                                  .to = state.to};
    ConvolveChannels(*pass.compute().kernels, convolution, convolved, first, count);
    for (std::size_t i = 0; i + 1 < convolution.width; ++i) {
      pass.CheckFinite(s, convolved.to + convolution.StateIndex(i, first), count);
    }
  });
}

// ---- short convolution

namespace {

CausalConvolution ConvolutionOf(const ModelConfig& config, const float* taps) {
  return {.taps = taps, .channels = config.embedding_size, .width = config.short_convolution_width};
}

}  // namespace

std::size_t ShortConvolutionStateFloats(const ModelConfig& config) {
  return StateFloatsOf(ConvolutionOf(config, nullptr));
}

void RunShortConvolution(ForwardPass& pass, std::size_t layer,
                         const ShortConvolutionWeights& weights) {
  const std::size_t width = pass.config().embedding_size;
  const RowBuffer& gates = pass.Rows(Scratch::kMixerInput, {3, width});  // B, C, x
  const RowBuffer& input = pass.Rows(Scratch::kGate, {width});
  const RowBuffer& mixed = pass.Rows(Scratch::kMixerOutput, {width});
  pass.Project(weights.in, pass.NormedStream(weights.norm), gates);
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      const float* b = gates[row];
      const float* x = gates[row] + 2 * width;
      for (std::size_t i = 0; i < width; ++i) input[row][i] = b[i] * x[i];
    }
  });
  RunCausalConvolution(pass, layer, ConvolutionOf(pass.config(), weights.taps), input, 0, mixed);
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      const float* c = gates[row] + width;
      for (std::size_t i = 0; i < width; ++i) mixed[row][i] *= c[i];
    }
  });
  pass.AddToStream(weights.out, mixed);
}

}  // namespace kvd
