// The cached rows of one model as planes: the keys of a layer, the values of a layer. What is read
// out of a memory and what is brought back is addressed by plane and by the cell's ordinal in its
// sequence, so that neither blocks nor groups are seen outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/cell_layout.h"
#include "engine/model_config.h"
#include "kernels/data_type.h"
#include "shm/error.h"

namespace kvd {

enum class CacheSide : std::uint8_t { kKeys, kValues };

struct CachePlane {
  std::uint32_t layer = 0;
  CacheSide side = CacheSide::kKeys;
  std::uint32_t group = 0;       // block group of the memory that its cells lie in
  std::uint32_t head_count = 0;  // rows of one cell
  std::uint32_t dim = 0;         // elements of one row
  kernels::DataType type = kernels::DataType::kF16;  // in the pool

  std::size_t row_bytes(kernels::DataType of_type) const { return kernels::RowBytes(of_type, dim); }
  std::size_t cell_bytes(kernels::DataType of_type) const {
    return head_count * row_bytes(of_type);
  }
};

// Keys then values of each layer that caches rows, by layer.
std::vector<CachePlane> CachePlanesOf(const ModelConfig& config, const CellLayout& cells);

// "keys of layer 3".
std::string PlaneText(const CachePlane& plane);

// Whether rows of the plane can have this type. Errors: kUnsupported, naming the plane.
Status CheckRowType(const CachePlane& plane, kernels::DataType type);

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
