// Encodes f32 numbers in every weight type, without importance weights: with the plain reference
// method of the older types, and with a search over a few scales for the types of block_encoders.h.
//
// Quantize is meant for models of random weights. The function is pure and may be called on any
// thread.
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
