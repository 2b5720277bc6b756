// A unit of work is one sequence and a range of channels. The taps of a range are turned once, so
// that the inner loop runs over channels side by side.
#include "engine/layers/causal_convolution.h"

#include <algorithm>
#include <array>

#include "shm/check.h"

namespace kvd {
namespace {

constexpr std::array<float, kUnitChannels> kZeros = {};

}  // namespace

void ConvolveChannels(const CausalConvolution& convolution, const SequencePiece& piece,
                      std::size_t first, std::size_t count) {
  KVD_ASSERT(count <= kUnitChannels);
  const std::size_t width = convolution.width;
  const std::size_t kept = width - 1;
  // Row `row` of the kept inputs with those of the piece behind them.
  const auto input = [&](std::size_t row) {
    if (row >= kept) return piece.x[row - kept] + first;
    if (piece.from == nullptr) return kZeros.data();
    return piece.from + row * convolution.channels + first;
  };
  float taps[ModelConfig::kConvolutionWidthMax][kUnitChannels];
  for (std::size_t i = 0; i < width; ++i) {
    for (std::size_t c = 0; c < count; ++c) taps[i][c] = convolution.taps[(first + c) * width + i];
  }
  const float* start = convolution.bias == nullptr ? kZeros.data() : convolution.bias + first;
  for (std::size_t row = 0; row < piece.row_count; ++row) {
    float sum[kUnitChannels];
    std::copy_n(start, count, sum);
    for (std::size_t i = 0; i < width; ++i) {
      const float* x = input(row + i);
      for (std::size_t c = 0; c < count; ++c) sum[c] += taps[i][c] * x[c];
    }
    std::copy_n(sum, count, piece.y[row] + first);
  }
  for (std::size_t i = 0; i < kept; ++i) {
    std::copy_n(input(piece.row_count + i), count, piece.to + i * convolution.channels + first);
  }
}

void RunCausalConvolution(ForwardPass& pass, std::size_t layer, std::size_t state_offset,
                          const CausalConvolution& convolution, const RowBuffer& x,
                          const RowBuffer& y) {
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
    const SequencePiece piece{.x = x.pointers() + rows.first_row,
                              .y = y.pointers() + rows.first_row,
                              .row_count = rows.row_count,
                              .from = state.from == nullptr ? nullptr : state.from + state_offset,
                              .to = state.to + state_offset};
    ConvolveChannels(convolution, piece, first, count);
    for (std::size_t i = 0; i + 1 < convolution.width; ++i) {
      pass.CheckFinite(s, piece.to + i * channels + first, count);
    }
  });
}

}  // namespace kvd
