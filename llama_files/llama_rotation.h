// The rotation of heads by llama.cpp of 2026: llama.cpp multiplies the heads of K and V by
// Hadamard's matrix before it stores them in a quantised cache, so that no element of a row is much
// larger than the other elements. State files do not record the rotation. Source: attn_rot_k,
// attn_rot_v, build_input_k_rot and build_input_v_rot of llama-kv-cache.cpp.
#pragma once

#include <cstddef>

#include "state_layout/cache_plane.h"
#include "state_layout/state_model.h"

namespace kvd {

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

}  // namespace kvd
