#include "engine/cell_rotator.h"

#include <cstring>

namespace kvd {

ModelCellRotator::ModelCellRotator(RotationKind kind, const ModelConfig& config,
                                   const CellLayout& cells, const kernels::KernelTable& kernels,
                                   const RopeTable& rope, Memory& memory)
    : kind_(kind),
      config_(config),
      cells_(cells),
      kernels_(kernels),
      rope_(rope),
      memory_(memory),
      key_(config.head_dim_k),
      cosine_(rope.pair_count()),
      sine_(rope.pair_count()) {}

Status ModelCellRotator::RotateCell(BlockId source_block, std::uint32_t source_cell, Pos from,
                                    BlockId destination_block, std::uint32_t destination_cell,
                                    Pos to) {
  const bool backwards = kind_ == RotationKind::kLlamaDivide;
  rope_.FillDifference(backwards ? to : from, backwards ? from : to, cosine_.data(), sine_.data());
  const std::byte* source = memory_.BlockBytes(source_block);
  std::byte* destination = memory_.BlockBytes(destination_block);
  bool finite = true;
  for (std::size_t layer = 0; layer < config_.layer_count; ++layer) {
    for (std::size_t head = 0; head < config_.kv_head_count[layer]; ++head) {
      kernels_.decode_row(cells_.k_type, source + cells_.KRow(layer, head, source_cell),
                          key_.data(), config_.head_dim_k);
      kernels_.rope(key_.data(), 1, config_.head_dim_k, config_.rope.rotated_dim,
                    config_.rope.interleaved, cosine_.data(), sine_.data());
      if (kind_ == RotationKind::kLlamaShift) {
        kernels_.scale(key_.data(), config_.rope.attention_factor, config_.rope.rotated_dim,
                       key_.data());
      }
      finite &= kernels_.encode_row(cells_.k_type, key_.data(),
                                    destination + cells_.KRow(layer, head, destination_cell),
                                    config_.head_dim_k);
      std::memcpy(destination + cells_.VRow(layer, head, destination_cell),
                  source + cells_.VRow(layer, head, source_cell), cells_.layers[layer].v_row_bytes);
    }
  }
  if (!finite) return Fail(Code::kNumerical, "a key is not finite after its rotation");
  return {};
}

}  // namespace kvd
