// Copies cells from one block to another as defragmentation needs it: rows of K and V, plane by plane.
#pragma once

#include <cstdint>

#include "engine/cell_layout.h"
#include "engine/memory/memory.h"

namespace kvd {

class PoolCellMover final : public CellMover {
 public:
  // The arguments outlive the object.
  PoolCellMover(const CellLayout& cells, Memory& memory) : cells_(cells), memory_(memory) {}

  void MoveCells(std::uint32_t group, BlockId source_block, std::uint32_t source_cell,
                 BlockId destination_block, std::uint32_t destination_cell,
                 std::uint32_t count) override;

 private:
  const CellLayout& cells_;
  Memory& memory_;
};

}  // namespace kvd
