#include "engine/work/cell_mover.h"

#include <cstring>

namespace kvd {

void PoolCellMover::MoveCells(std::uint32_t group, BlockId source_block, std::uint32_t source_cell,
                              BlockId destination_block, std::uint32_t destination_cell,
                              std::uint32_t count) {
  const std::byte* source = memory_.BlockBytes(group, source_block);
  std::byte* destination = memory_.BlockBytes(group, destination_block);
  for (std::size_t layer = 0; layer < cells_.layers.size(); ++layer) {
    if (cells_.groups[layer] != group) continue;
    const LayerLayout& at = cells_.layers[layer];
    for (std::size_t head = 0; head < at.kv_head_count; ++head) {
      std::memcpy(destination + cells_.KRow(layer, head, destination_cell),
                  source + cells_.KRow(layer, head, source_cell),
                  std::size_t{count} * at.k_row_bytes);
      if (at.values_in_keys) continue;
      std::memcpy(destination + cells_.VRow(layer, head, destination_cell),
                  source + cells_.VRow(layer, head, source_cell),
                  std::size_t{count} * at.v_row_bytes);
    }
  }
}

}  // namespace kvd
