// The gated short convolution of LFM2 (Liquid AI 2025): a convolution over three or so tokens
// between two gates.
#pragma once

#include <cstddef>

#include "engine/forward_pass.h"
#include "engine/layers/short_convolution_weights.h"

namespace kvd {

// Floats of its state: the inputs of the convolution at the last width - 1 tokens.
std::size_t ShortConvolutionStateFloats(const ModelConfig& config);

// stream += Out(C * Convolution(B * x)) with (B, C, x) = In(rms_norm(stream))
void RunShortConvolution(ForwardPass& pass, std::size_t layer,
                         const ShortConvolutionWeights& weights);

}  // namespace kvd
