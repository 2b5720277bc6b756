// A depthwise convolution over the last tokens of a sequence: each channel by itself, with taps of
// its own.
//
// Its state are the inputs of the last width - 1 tokens: [width - 1, channels], oldest first, zeros
// before the first token. A row's result is a sum over the taps in order, oldest first
// (kernels/scan_args.h), and depends on nothing else.
#pragma once

#include <cstddef>

#include "engine/forward_pass.h"

namespace kvd {

struct CausalConvolution {
  const float* taps = nullptr;  // [channels, width], the oldest token's first
  const float* bias = nullptr;  // [channels] or null
  std::size_t channels = 0;
  std::size_t width = 0;      // 1 to ModelConfig::kConvolutionWidthMax
  bool is_activated = false;  // y = silu(y)
};

constexpr std::size_t StateFloatsOf(const CausalConvolution& convolution) {
  return (convolution.width - 1) * convolution.channels;
}

// Consecutive rows of one sequence and the state before and behind them.
struct SequencePiece {
  const float* const* x = nullptr;  // [row_count] rows
  std::size_t x_first = 0;          // where in them the first channel is
  float* const* y = nullptr;        // [row_count] rows; none is a row of x
  std::size_t row_count = 0;        // at least 1
  const float* from = nullptr;      // null: zeros
  float* to = nullptr;              // does not overlap `from`
};

inline constexpr std::size_t kUnitChannels = 64;
// Channels [first, first + count) of one piece; count <= kUnitChannels.
void ConvolveChannels(const kernels::KernelTable& kernels, const CausalConvolution& convolution,
                      const SequencePiece& piece, std::size_t first, std::size_t count);

// y[row][c] = bias[c] + sum over i of taps[c][i] * x[row - (width - 1) + i][x_first + c], the rows
// before the ubatch taken from the state, which is at the start of that of the layer. y: the first
// `channels` floats of each row. y is not x.
void RunCausalConvolution(ForwardPass& pass, std::size_t layer,
                          const CausalConvolution& convolution, const RowBuffer& x,
                          std::size_t x_first, const RowBuffer& y);

}  // namespace kvd
