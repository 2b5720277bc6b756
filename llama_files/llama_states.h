// Conversions between the recurrent state of a layer in a state file of llama.cpp and in the pool.
// The numbers of a recurrent state are the same in both; only their order differs.
//
// A file has two rows of f32 per recurrent layer:
//   R  the inputs of the convolution [channels, kept tokens], oldest first; in the pool [kept,
//      channels]. RWKV: the last token's input rows of the layer's two token shifts.
//   S  the state of the scan, as in the pool. For RWKV-7 and the gated delta net each head's matrix
//      is [values, keys] in the file and [keys, values] in the pool. LFM2: empty.
// Source: build_rs users in src/models of llama.cpp, ggml_compute_forward_rwkv_wkv6/7 and
// ggml_compute_forward_gated_delta_net in ggml-cpu/ops.cpp.
#pragma once

#include <cstddef>
#include <span>

#include "state_layout/state_model.h"

namespace kvd {

// `state`: the shape.floats() floats of the layer in the pool, starting at shape.offset.
void StateToLlamaR(const StateShape& shape, std::span<const float> state, std::span<float> r);
void StateToLlamaS(const StateShape& shape, std::span<const float> state, std::span<float> s);
void StateFromLlama(const StateShape& shape, std::span<const float> r, std::span<const float> s,
                    std::span<float> state);

}  // namespace kvd
