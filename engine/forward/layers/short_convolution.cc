#include "engine/forward/layers/short_convolution.h"

#include "engine/forward/layers/causal_convolution.h"

namespace kvd {
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
