// The layers of RWKV-6 (Peng et al. 2024, "Eagle and Finch") and RWKV-7 (Peng et al. 2025, "RWKV-7
// Goose").
//
// The state of a layer consists of the last token's normed rows of time mix and channel mix [2, E],
// followed by the matrices of the heads: [heads, head_size keys, head_size values].
#pragma once

#include <cstddef>
#include <span>

#include "engine/forward/pass/forward_pass.h"
#include "engine/model/rwkv_weights.h"

namespace kvd {

std::size_t RwkvStateFloats(const ModelConfig& config);

// stream += TimeMix(layer_norm(stream)).
void RunRwkv6TimeMix(ForwardPass& pass, std::size_t layer, const Rwkv6TimeMix& weights);
// stream += TimeMix(layer_norm(stream)), with the time mix of RWKV-7. The values of the first layer
// stay in Scratch::kFirstValues for the following layers.
void RunRwkv7TimeMix(ForwardPass& pass, std::size_t layer, const Rwkv7TimeMix& weights);
// stream += ChannelMix(layer_norm(stream)), where ChannelMix = Value(max(0, Key)^2), multiplied by
// the logistic function of the receptance if the model has a receptance.
void RunRwkvChannelMix(ForwardPass& pass, std::size_t layer, const RwkvChannelMix& weights);

// NormStream applies a layer norm to the stream in place, and NormRows applies it to other rows and
// writes to `out`.
void NormStream(ForwardPass& pass, const NormWeights& weights);
void NormRows(ForwardPass& pass, std::span<const float* const> rows, const NormWeights& weights,
              float* const* out);

}  // namespace kvd
