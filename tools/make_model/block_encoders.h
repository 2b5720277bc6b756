// Encoders of one block of types whose levels are not evenly spaced, whose parts have fewer than 32
// elements, or whose levels are points of a grid (grid_encoders.cc). Each encoder tries several
// scales and keeps the scale with the smallest sum of squared errors.
//
// The functions are pure and may be called on any thread. REQUIRES: x has as many elements as one
// block.
#pragma once

#include <span>

#include "kernels/quant_blocks.h"

namespace kvd {

kernels::BlockQ2_K EncodeQ2_K(std::span<const float> x);
kernels::BlockQ3_K EncodeQ3_K(std::span<const float> x);
kernels::BlockIQ2_XXS EncodeIQ2_XXS(std::span<const float> x);
kernels::BlockIQ2_XS EncodeIQ2_XS(std::span<const float> x);
kernels::BlockIQ2_S EncodeIQ2_S(std::span<const float> x);
kernels::BlockIQ3_XXS EncodeIQ3_XXS(std::span<const float> x);
kernels::BlockIQ3_S EncodeIQ3_S(std::span<const float> x);
kernels::BlockIQ4_NL EncodeIQ4_NL(std::span<const float> x);
kernels::BlockIQ4_XS EncodeIQ4_XS(std::span<const float> x);
kernels::BlockMXFP4 EncodeMXFP4(std::span<const float> x);

}  // namespace kvd
