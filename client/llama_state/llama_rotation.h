// llama.cpp of 2026 multiplies the heads of K and V by Hadamard's matrix before it stores them in a
// quantised cache, so that no element of a row is much larger than the others. Its files do not say
// so. Source: attn_rot_k, attn_rot_v, build_input_k_rot and build_input_v_rot of llama-kv-cache.cpp.
#pragma once

#include <cstddef>

#include "state_form/cache_plane.h"

namespace kvd {

// The number of rows of the matrix by which llama.cpp multiplies rows of this type; 0: none.
std::size_t LlamaRotationOf(const CachePlane& plane, kernels::DataType type);

// Multiplies each piece of `side` elements of x by Hadamard's matrix in Sylvester's order over
// sqrt(side), which is its own inverse. REQUIRES: `side` is a power of two that divides `count`.
void RotateHeads(float* x, std::size_t count, std::size_t side);

}  // namespace kvd
