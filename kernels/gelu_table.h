// A table of GELU for every f16 number, as f16. ggml also computes GELU by such a table, so a model
// gives the same answers as in ggml. The error of the table is half an ulp of f16, like the error
// of activations that are stored in f16.
#pragma once

#include <cstdint>

namespace kvd::kernels {

// [65536], indexed by the bits of x: 0.5 x (1 + tanh(sqrt(2 / pi) x (1 + 0.044715 x^2))) (Hendrycks
// and Gimpel 2016); a NaN for every NaN. The first call builds the table; any thread may call
// GeluTable.
const std::uint16_t* GeluTable();

// Outside of [-kGeluBound, kGeluBound], GELU(x) computed in f32 is 0 or x.
inline constexpr float kGeluBound = 10.0f;

}  // namespace kvd::kernels
