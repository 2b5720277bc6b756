// The planes of an engine's model (state_layout/cached_rows.h), and the arrangement of their rows
// in buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/memory/geometry.h"
#include "engine/model/model_config.h"
#include "kernels/data_type.h"
#include "state_layout/cached_rows.h"

namespace kvd {

// The key plane and then the value plane of each layer that caches rows, in the order of layers.
// Layers whose values are in their keys have no value plane.
std::vector<CachePlane> CachePlanesOf(const ModelConfig& config, const CellLayout& cells);

// The arrangement of rows in a caller's buffer. The row of head h and cell c (counted from the
// first requested cell) is at h * head_stride_bytes + c * cell_stride_bytes.
struct RowPlacement {
  std::size_t head_stride_bytes = 0;
  std::size_t cell_stride_bytes = 0;
};
// [head][cell][dim] for cell_count cells.
RowPlacement HeadMajor(const CachePlane& plane, kernels::DataType type, std::size_t cell_count);
// [cell][head][dim].
RowPlacement CellMajor(const CachePlane& plane, kernels::DataType type);

// Returns whether all elements are finite. `type` is any type that cells can have.
bool AllFinite(kernels::DataType type, const std::byte* elements, std::size_t element_count);

}  // namespace kvd
