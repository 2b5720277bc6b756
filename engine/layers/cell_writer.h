// Encodes K and V rows of new cells into the places that a step has reserved for them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cell_layout.h"
#include "engine/memory/memory.h"
#include "kernels/kernel_table.h"

namespace kvd {

struct NewCells {
  const GroupPart* part = nullptr;  // of the step's sequence
  std::uint32_t group = 0;
  std::size_t first_cell = 0;  // ordinal of the first new one
  std::size_t cell_count = 0;
};

// Rows of `layer` (CellLayout): k[i] and v[i] are [kv heads, head_dim_k] and [kv heads, head_dim_v]
// of new cell i, keys rotated already. False: a number was not finite.
bool WriteCells(const kernels::KernelTable& kernels, const CellLayout& cells, Memory& memory,
                const NewCells& target, std::size_t layer, std::size_t head_dim_k,
                std::size_t head_dim_v, const float* const* k, const float* const* v);

}  // namespace kvd
