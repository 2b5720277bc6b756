// PoolCellMover: copies the K and V rows of cells from one block of the pool to another, for
// defragmentation.
#pragma once

#include <cstdint>

#include "engine/memory/cell_layout.h"
#include "engine/memory/memory.h"

namespace kvd {

class PoolCellMover final : public CellMover {
 public:
  // The arguments outlive the PoolCellMover.
  PoolCellMover(const CellLayout& cells, Memory& memory) : cells_(cells), memory_(memory) {}

  void MoveCells(std::uint32_t group, BlockId source_block, std::uint32_t source_cell,
                 BlockId destination_block, std::uint32_t destination_cell,
                 std::uint32_t count) override;

 private:
  const CellLayout& cells_;
  Memory& memory_;
};

}  // namespace kvd
