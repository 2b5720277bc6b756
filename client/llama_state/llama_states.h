// How the recurrent state of a layer lies in a state file of llama.cpp, and how it is brought from
// there to the pool's order and back. Values are the same; only their order differs.
//
// A file has two rows of f32 per recurrent layer:
//   R  the inputs of the convolution [channels, kept tokens], oldest first; in the pool [kept,
//      channels]. RWKV: the rows of the last token of its two halves.
//   S  what the scan carries, as in the pool; of RWKV-7 and of the gated delta net each head's
//      matrix is [values, keys] in the file, [keys, values] in the pool. LFM2: empty.
// Source: build_rs users in src/models of llama.cpp, ggml_compute_forward_rwkv_wkv6/7 and
// ggml_compute_forward_gated_delta_net in ggml-cpu/ops.cpp.
#pragma once

#include <cstddef>
#include <span>

#include "state_form/state_model.h"

namespace kvd {

// `state`: the floats of the layer in the pool, from shape.offset on, as many as floats().
void StateToLlamaR(const StateShape& shape, std::span<const float> state, std::span<float> r);
void StateToLlamaS(const StateShape& shape, std::span<const float> state, std::span<float> s);
void StateFromLlama(const StateShape& shape, std::span<const float> r, std::span<const float> s,
                    std::span<float> state);

}  // namespace kvd
