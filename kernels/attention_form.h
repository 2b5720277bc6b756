// A number of attention's numeric form that no caller needs (kernels/kernel_table.h).
#pragma once

#include <cstddef>

namespace kvd::kernels {

// Elements of a key whose products with a query are summed by themselves.
inline constexpr std::size_t kScoreChunk = 24;

}  // namespace kvd::kernels
