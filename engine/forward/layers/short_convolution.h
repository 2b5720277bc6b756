// The gated short convolution of LFM2 (Liquid AI 2025): a convolution over about three tokens,
// between two gates.
#pragma once

#include <cstddef>

#include "engine/forward/pass/forward_pass.h"
#include "engine/model/short_convolution_weights.h"

namespace kvd {

// Floats of a layer's state, which is the convolution's inputs of the last width - 1 tokens.
std::size_t ShortConvolutionStateFloats(const ModelConfig& config);

// stream += Out(C * Convolution(B * x)), with (B, C, x) = In(rms_norm(stream)).
void RunShortConvolution(ForwardPass& pass, std::size_t layer,
                         const ShortConvolutionWeights& weights);

}  // namespace kvd
