// Encodes f32 into every weight type: the plain reference form of each, without importance or
// search over rounding.
//
// For models of random weights; real models come quantised. Pure, any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/data_type.h"

namespace kvd {

// REQUIRES: values.size() is a multiple of the type's block; all are finite and below 1e4 in
// magnitude.
std::vector<std::byte> Quantize(kernels::DataType type, std::span<const float> values);

}  // namespace kvd
