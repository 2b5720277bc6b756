// The cached rows of one model as planes: the keys of a layer, the values of a layer. Rows are
// addressed by plane and by the cell's ordinal in its sequence, so that neither blocks nor groups
// are seen outside of the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "shm/error.h"
#include "state_form/row_types.h"

namespace kvd {

enum class CacheSide : std::uint8_t { kKeys, kValues };

struct CachePlane {
  std::uint32_t layer = 0;
  CacheSide side = CacheSide::kKeys;
  std::uint32_t group = 0;       // of the engine's memory: block group that its cells lie in
  std::uint32_t head_count = 0;  // rows of one cell
  std::uint32_t dim = 0;         // elements of one row
  std::uint32_t window = 0;      // positions that the layer looks back at; 0: all
  kernels::DataType type = kernels::DataType::kF16;  // in the pool

  std::size_t row_bytes(kernels::DataType of_type) const { return kernels::RowBytes(of_type, dim); }
  std::size_t cell_bytes(kernels::DataType of_type) const {
    return head_count * row_bytes(of_type);
  }
};

// "keys of layer 3".
std::string PlaneText(const CachePlane& plane);

// Whether rows of the plane can have this type. Errors: kUnsupported, naming the plane.
Status CheckRowType(const CachePlane& plane, kernels::DataType type);

}  // namespace kvd
