// The planes of an engine's model (state_form/cache_plane.h), and how their rows lie in buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cell_layout.h"
#include "engine/model_config.h"
#include "kernels/data_type.h"
#include "state_form/cache_plane.h"

namespace kvd {

// Keys then values of each layer that caches rows, by layer.
std::vector<CachePlane> CachePlanesOf(const ModelConfig& config, const CellLayout& cells);

// How rows lie in a caller's buffer: row of head h and cell c (from the first cell asked for) at h *
// head_stride_bytes + c * cell_stride_bytes.
struct RowPlacement {
  std::size_t head_stride_bytes = 0;
  std::size_t cell_stride_bytes = 0;
};
// [head][cell][dim], for cell_count cells.
RowPlacement HeadMajor(const CachePlane& plane, kernels::DataType type, std::size_t cell_count);
// [cell][head][dim].
RowPlacement CellMajor(const CachePlane& plane, kernels::DataType type);

// Whether all numbers of element_count elements are finite. Any type that cells can have.
bool AllFinite(kernels::DataType type, const std::byte* elements, std::size_t element_count);

}  // namespace kvd
