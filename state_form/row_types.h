// The element types of cached rows, for code that reads and writes saved states without an engine.
//
// kernels::DataType, its blocks and its names are defined in kernels/data_type.h. DecodeRows and
// EncodeRows give the same bits as the functions of every kernel table.
#pragma once

#include <cstddef>

#include "kernels/data_type.h"

namespace kvd {

// Returns whether the rows of cells may have the type: true for f32, f16, bf16, q8_0 and q4_0.
constexpr bool IsRowType(kernels::DataType type) { return kernels::IsCellType(type); }

// DecodeRows converts element_count elements of `type` to f32 and EncodeRows converts f32 to
// `type`, with the same bits as KernelTable::decode_row and encode_row. REQUIRES of both:
// IsRowType(type); element_count is a multiple of the type's block.
void DecodeRows(kernels::DataType type, const std::byte* rows, float* floats,
                std::size_t element_count);
// EncodeRows returns false if an element is not finite before or after rounding; EncodeRows writes
// the rows even if it returns false.
bool EncodeRows(kernels::DataType type, const float* floats, std::byte* rows,
                std::size_t element_count);

}  // namespace kvd
