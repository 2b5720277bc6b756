// How rows and recurrent states in a state file of llama.cpp differ from those of the pool.
#pragma once

#include <cstddef>
#include <span>

#include "state_layout/cached_rows.h"
#include "state_layout/state_model.h"

namespace kvd {

// The rotation of heads by llama.cpp of 2026: llama.cpp multiplies the heads of K and V by
// Hadamard's matrix before it stores them in a quantised cache, so that no element of a row is much
// larger than the other elements. State files do not record the rotation. Source: attn_rot_k,
// attn_rot_v, build_input_k_rot and build_input_v_rot of llama-kv-cache.cpp.

// The number of rows of the matrix by which llama.cpp multiplies rows of the type `type`; 0:
// llama.cpp does not multiply rows of this type.
std::size_t LlamaRotationOf(const CachePlane& plane, kernels::DataType type);

// Errors: kUnsupported (quantised latent rows, or quantised rows of a model whose layers have heads
// of several lengths: how llama.cpp rotates the rows of such a model is not checked).
Status CheckQuantizedRows(const StateModel& model, kernels::DataType type);

// Multiplies each group of `side` elements of x by Hadamard's matrix in Sylvester's order, divided
// by sqrt(side); this matrix is its own inverse. REQUIRES: `side` is a power of two that divides
// `count`.
void RotateHeads(float* x, std::size_t count, std::size_t side);

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

// `state`: the shape.floats() floats of the layer in the pool, starting at shape.offset.
void StateToLlamaR(const StateShape& shape, std::span<const float> state, std::span<float> r);
void StateToLlamaS(const StateShape& shape, std::span<const float> state, std::span<float> s);
void StateFromLlama(const StateShape& shape, std::span<const float> r, std::span<const float> s,
                    std::span<float> state);

}  // namespace kvd
