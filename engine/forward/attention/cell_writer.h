// Encodes K and V rows of new cells into the cells that a step has reserved for them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/memory/cell_layout.h"
#include "engine/memory/memory.h"
#include "kernels/kernel_table.h"

namespace kvd {

struct NewCells {
  const GroupPart* part = nullptr;  // of the step's sequence
  std::uint32_t group = 0;
  std::size_t first_cell = 0;  // index of the first new cell in the sequence
  std::size_t cell_count = 0;
};

// Encodes rows of `layer` (CellLayout). k[i] and v[i] are [kv heads, head_dim_k] and [kv heads,
// head_dim_v] of new cell i; keys are already rotated. v is not read if the layer's values are in
// its keys. Returns false if a key or value was not finite.
bool WriteCells(const kernels::KernelTable& kernels, const CellLayout& cells, Memory& memory,
                const NewCells& target, std::size_t layer, std::size_t head_dim_k,
                std::size_t head_dim_v, const float* const* k, const float* const* v);

}  // namespace kvd
