// How the K and V rows of a cell are read from its block: the memory's layout of one block, with
// the element types.
//
// One head's K (or V) of one block is a dense matrix [kBlockCells, dim]. A value, made once from
// the memory's geometry.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/memory/geometry.h"
#include "kernels/data_type.h"

namespace kvd {

struct CellLayout {
  kernels::DataType k_type = kernels::DataType::kF16;
  kernels::DataType v_type = kernels::DataType::kF16;
  // By layer of the model; behind them, of models with cross-attention, by CrossLayer.
  std::vector<LayerLayout> layers;
  std::vector<std::uint32_t> groups;            // the block group that the layer's cells lie in
  std::uint32_t cross_group = layout::kNoSlot;  // the one of encoded texts, if there is one

  // The number of the K and V that a layer has of the encoded text.
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
  // K and V of one token in all layers; not those of an encoded text's.
  std::size_t cell_bytes() const {
    std::size_t bytes = 0;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      const LayerLayout& at = layers[layer];
      if (groups[layer] == cross_group) continue;
      bytes += std::size_t{at.kv_head_count} * (at.k_row_bytes + at.v_row_bytes);
    }
    return bytes;
  }
};

}  // namespace kvd
