// The gated delta net (Yang et al. 2024, "Gated Delta Networks: Improving Mamba2 with Delta Rule")
// as in Qwen3-Next and Qwen3.5: a short convolution, the delta rule, and a gated norm.
//
// The state of a layer consists of the convolution's inputs of the last width - 1 tokens, followed
// by the matrices of the value heads: [value_heads, head_size keys, head_size values].
#pragma once

#include <cstddef>

#include "engine/forward/pass/forward_pass.h"
#include "engine/model/gated_delta_net_weights.h"

namespace kvd {

std::size_t GatedDeltaNetStateFloats(const ModelConfig& config);

// stream += Out(rms_norm(DeltaRule(silu(Convolution(Qkv(x))))) * silu(Gate(x))), with x =
// rms_norm(stream). Value head h uses the queries and keys of key head h % key_heads.
void RunGatedDeltaNet(ForwardPass& pass, std::size_t layer, const GatedDeltaNetWeights& weights);

}  // namespace kvd
