// CellLayout: where the K and V rows of a cell lie in its block, with the element types.
//
// One head's K (or V) of one block is a dense matrix [kBlockCells, dim]. CellLayout is a plain
// value that is made once from the memory's geometry.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/memory/geometry.h"
#include "kernels/data_type.h"

namespace kvd {

struct CellLayout {
  kernels::DataType k_type = kernels::DataType::kF16;
  kernels::DataType v_type = kernels::DataType::kF16;
  // One entry per layer of the model. A model with cross-attention has a second entry per layer,
  // whose index CrossLayer returns.
  std::vector<LayerLayout> layers;
  std::vector<std::uint32_t> groups;            // by layer: block group of its cells
  std::uint32_t cross_group = layout::kNoSlot;  // block group of encoded texts; kNoSlot: none

  // The index in `layers` of the entry for the K and V of an encoded text in the given layer.
  static std::size_t CrossLayer(std::size_t layer_count, std::size_t layer) {
    return layer_count + layer;
  }

  // Offset of a cell's row from its block's start.
  std::size_t KRow(std::size_t layer, std::size_t head, std::size_t cell) const {
    const LayerLayout& at = layers[layer];
    return at.k_offset + head * at.k_head_bytes + cell * at.k_row_bytes;
  }
  std::size_t VRow(std::size_t layer, std::size_t head, std::size_t cell) const {
    const LayerLayout& at = layers[layer];
    return at.v_offset + head * at.v_head_bytes + cell * at.v_row_bytes;
  }
  kernels::DataType value_type(std::size_t layer) const {
    return layers[layer].values_in_keys ? k_type : v_type;
  }
  // Bytes of K and V of one token in all layers, without those of an encoded text.
  std::size_t cell_bytes() const {
    std::size_t bytes = 0;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      const LayerLayout& at = layers[layer];
      if (groups[layer] == cross_group) continue;
      const std::size_t v_bytes = at.values_in_keys ? 0 : at.v_row_bytes;
      bytes += std::size_t{at.kv_head_count} * (at.k_row_bytes + v_bytes);
    }
    return bytes;
  }
};

}  // namespace kvd
