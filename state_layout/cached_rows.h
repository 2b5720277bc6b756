// Cached rows in a saved state: the types of their elements, and the planes that hold them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "kernels/data_type.h"

namespace kvd {

// The element types of cached rows, for code that reads and writes saved states without an engine.
//
// kernels::DataType, its blocks and its names are defined in kernels/data_type.h. DecodeRows and
// EncodeRows give the same bits as the functions of every kernel table.

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

// CachePlane describes the cached rows of one layer and side: its keys or its values. Rows are
// addressed by plane and by the cell's ordinal in its sequence, so that blocks and block groups are
// not visible outside the engine.
enum class CacheSide : std::uint8_t { kKeys, kValues };

struct CachePlane {
  std::uint32_t layer = 0;
  CacheSide side = CacheSide::kKeys;
  std::uint32_t group = 0;       // block group of the engine's memory that holds the layer's cells
  std::uint32_t head_count = 0;  // number of rows of one cell
  std::uint32_t dim = 0;         // number of elements of one row
  std::uint32_t window = 0;      // number of positions that the layer attends to; 0: all positions
  kernels::DataType type = kernels::DataType::kF16;  // element type in the pool

  std::size_t row_bytes(kernels::DataType of_type) const { return kernels::RowBytes(of_type, dim); }
  std::size_t cell_bytes(kernels::DataType of_type) const {
    return head_count * row_bytes(of_type);
  }
};

// Names the plane for messages, for example "keys of layer 3".
std::string PlaneText(const CachePlane& plane);

// Checks that a saved state can store the plane's rows with elements of `type`: IsRowType(type),
// and the type's block size divides the plane's dim. Errors: kUnsupported, naming the plane.
Status CheckRowType(const CachePlane& plane, kernels::DataType type);

}  // namespace kvd
