// A constant of attention's numeric form that callers do not need (kernels/kernel_table.h).
#pragma once

#include <cstddef>

namespace kvd::kernels {

// Elements of a key whose products with a query form one partial sum.
inline constexpr std::size_t kScoreChunk = 24;

}  // namespace kvd::kernels
