// The layers of RWKV-6 (Peng et al. 2024, "Eagle and Finch") and RWKV-7 (Peng et al. 2025,
// "RWKV-7 Goose").
//
// The state of a layer: the normed rows of its two halves at the last token [2, E], then the
// matrices of its heads [heads, head_size keys, head_size values].
#pragma once

#include <cstddef>
#include <span>

#include "engine/forward_pass.h"
#include "engine/layers/rwkv_weights.h"

namespace kvd {

std::size_t RwkvStateFloats(const ModelConfig& config);

// stream += TimeMix(layer_norm(stream))
void RunRwkv6TimeMix(ForwardPass& pass, std::size_t layer, const Rwkv6TimeMix& weights);
// The values of the first layer are kept in Scratch::kH for those behind it.
void RunRwkv7TimeMix(ForwardPass& pass, std::size_t layer, const Rwkv7TimeMix& weights);
// stream += ChannelMix(layer_norm(stream)): the value of the squared positive part of the key, times
// the receptance if there is one.
void RunRwkvChannelMix(ForwardPass& pass, std::size_t layer, const RwkvChannelMix& weights);

// Layer norms of the stream in place, and of other rows.
void NormStream(ForwardPass& pass, const LayerNormWeights& weights);
void NormRows(ForwardPass& pass, std::span<const float* const> rows,
              const LayerNormWeights& weights, float* const* out);

}  // namespace kvd
