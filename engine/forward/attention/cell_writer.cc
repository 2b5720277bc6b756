#include "engine/forward/attention/cell_writer.h"

namespace kvd {

bool WriteCells(const kernels::KernelTable& kernels, const CellLayout& cells, Memory& memory,
                const NewCells& target, std::size_t layer, std::size_t head_dim_k,
                std::size_t head_dim_v, const float* const* k, const float* const* v) {
  const std::vector<layout::Extent>& extents = target.part->extents;
  const std::size_t kv_heads = cells.layers[layer].kv_head_count;
  std::size_t extent = target.part->first_new_extent;
  bool finite = true;
  for (std::size_t i = 0; i < target.cell_count; ++i) {
    const std::size_t cell = target.first_cell + i;
    while (extent + 1 < extents.size() && extents[extent + 1].start <= cell) ++extent;
    const layout::Extent& home = extents[extent];
    std::byte* block = memory.BlockBytes(target.group, BlockId{home.block});
    const std::size_t block_cell = home.first + (cell - home.start);
    for (std::size_t head = 0; head < kv_heads; ++head) {
      finite &= kernels.encode_row(cells.k_type, k[i] + head * head_dim_k,
                                   block + cells.KRow(layer, head, block_cell), head_dim_k);
      if (cells.layers[layer].values_in_keys) continue;
      finite &= kernels.encode_row(cells.v_type, v[i] + head * head_dim_v,
                                   block + cells.VRow(layer, head, block_cell), head_dim_v);
    }
  }
  return finite;
}

}  // namespace kvd
