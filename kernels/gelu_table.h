// GELU of every f16 number, as f16: how ggml computes it, so that a model's answers are those that
// it gave there. The error, half an ulp of f16, is that of activations kept in half precision.
#pragma once

#include <cstdint>

namespace kvd::kernels {

// [65536], by the bits of x: 0.5 x (1 + tanh(sqrt(2 / pi) x (1 + 0.044715 x^2))) (Hendrycks and
// Gimpel 2016); a NaN for every NaN. Made at the first call, any thread.
const std::uint16_t* GeluTable();

// GELU beyond it, in f32: 0 below -kGeluBound, x above kGeluBound.
inline constexpr float kGeluBound = 10.0f;

}  // namespace kvd::kernels
