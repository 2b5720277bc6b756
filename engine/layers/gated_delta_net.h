// The gated delta net (Yang et al. 2024, "Gated Delta Networks: Improving Mamba2 with Delta Rule")
// as Qwen3-Next and Qwen3.5 have it: a short convolution, the delta rule, and a gated norm.
//
// The state of a layer: the inputs of the convolution at the last width - 1 tokens, then the
// matrices of its value heads [value_heads, head_size keys, head_size values].
#pragma once

#include <cstddef>

#include "engine/forward_pass.h"
#include "engine/layers/gated_delta_net_weights.h"

namespace kvd {

std::size_t GatedDeltaNetStateFloats(const ModelConfig& config);

// stream += Out(rms_norm(DeltaRule(silu(Convolution(Qkv(x))))) * silu(Gate(x))), x =
// rms_norm(stream). Value head h has the queries and keys of key head h % key_heads.
void RunGatedDeltaNet(ForwardPass& pass, std::size_t layer, const GatedDeltaNetWeights& weights);

}  // namespace kvd
