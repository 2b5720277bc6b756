// QuantDot of the numeric form (kernels/kernel_table.h), in plain code.
#pragma once

#include "kernels/data_type.h"
#include "kernels/quantized_row.h"

namespace kvd::kernels::scalar {

// weights: a row of n elements of a quantised type.
float QuantDot(DataType type, const void* weights, const QuantizedRow& x, std::size_t n);

}  // namespace kvd::kernels::scalar
