// Convolutions over the last tokens of a sequence.
#pragma once

#include <cstddef>

#include "engine/forward/pass/forward_pass.h"
#include "engine/model/recurrent_weights.h"

namespace kvd {

// A depthwise convolution over the last tokens of a sequence: each channel has its own taps and is
// computed separately.
//
// The state of a convolution is the inputs of the last width - 1 tokens: [width - 1, channels],
// oldest first, with zeros before the first token. A row's result is a sum over the taps in order,
// oldest first (kernels/scan_args.h), and depends only on the inputs of the row's token and of the
// width - 1 tokens before it.
struct CausalConvolution {
  const float* taps = nullptr;  // [channels, width], oldest token first
  const float* bias = nullptr;  // [channels] or null
  std::size_t channels = 0;
  std::size_t width = 0;      // 1 to ModelConfig::kConvolutionWidthMax
  bool is_activated = false;  // if set, y = silu(y)
  // Several convolutions of a layer may share the rows of one state: this convolution has the
  // channels [first_in_row, first_in_row + channels) of the row_channels channels of each row. If
  // row_channels is 0, the convolution has whole rows.
  std::size_t first_in_row = 0;
  std::size_t row_channels = 0;

  // Where the state of `channel` i rows after the oldest row is, in floats.
  constexpr std::size_t StateIndex(std::size_t i, std::size_t channel) const {
    return i * (row_channels != 0 ? row_channels : channels) + first_in_row + channel;
  }
};

constexpr std::size_t StateFloatsOf(const CausalConvolution& convolution) {
  return (convolution.width - 1) * convolution.channels;
}

// Consecutive rows of one sequence, and the states before and after them.
struct ConvolvedRows {
  const float* const* x = nullptr;  // [row_count] rows
  std::size_t x_first = 0;          // index of the first channel in a row of x
  float* const* y = nullptr;        // [row_count] rows; no row of y is a row of x
  std::size_t row_count = 0;        // at least 1
  const float* from = nullptr;      // state before the rows; null: zeros
  float* to = nullptr;              // state after the rows; must not overlap `from`
};

inline constexpr std::size_t kUnitChannels = 64;
// Computes channels [first, first + count) of the rows of one sequence. REQUIRES: count <=
// kUnitChannels.
void ConvolveChannels(const kernels::KernelTable& kernels, const CausalConvolution& convolution,
                      const ConvolvedRows& convolved, std::size_t first, std::size_t count);

// y[row][c] = bias[c] + sum over i of taps[c][i] * x[row - (width - 1) + i][x_first + c]. Rows of x
// before the ubatch come from the convolution's state, which is at the start of the layer's state.
// The result is in the first `channels` floats of each row of y. REQUIRES: y is not x.
void RunCausalConvolution(ForwardPass& pass, std::size_t layer,
                          const CausalConvolution& convolution, const RowBuffer& x,
                          std::size_t x_first, const RowBuffer& y);

// The gated short convolution of LFM2 (Liquid AI 2025): a convolution over about three tokens,
// between two gates.

// Floats of a layer's state, which is the convolution's inputs of the last width - 1 tokens.
std::size_t ShortConvolutionStateFloats(const ModelConfig& config);

// stream += Out(C * Convolution(B * x)), with (B, C, x) = In(rms_norm(stream)).
void RunShortConvolution(ForwardPass& pass, std::size_t layer,
                         const ShortConvolutionWeights& weights);

}  // namespace kvd
