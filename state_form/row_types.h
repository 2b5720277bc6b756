// The element types of cached rows, for who reads and writes the form without an engine.
//
// kernels::DataType, its blocks and names are those of kernels/data_type.h. Conversions here give
// the bits that every kernel table gives.
#pragma once

#include <cstddef>

#include "kernels/data_type.h"

namespace kvd {

// Whether rows of cells may have the type: f32, f16, bf16 or q8_0.
constexpr bool IsRowType(kernels::DataType type) {
  return type == kernels::DataType::kF32 || type == kernels::DataType::kF16 ||
         type == kernels::DataType::kBF16 || type == kernels::DataType::kQ8_0;
}

// element_count elements to f32 and back, as KernelTable::decode_row and encode_row. REQUIRES:
// IsRowType(type), whole blocks.
void DecodeRows(kernels::DataType type, const std::byte* rows, float* floats,
                std::size_t element_count);
// False: a number was not finite before or after rounding; the rows are written all the same.
bool EncodeRows(kernels::DataType type, const float* floats, std::byte* rows,
                std::size_t element_count);

}  // namespace kvd
