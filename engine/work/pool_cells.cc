#include "engine/work/pool_cells.h"

#include <algorithm>
#include <cstring>

namespace kvd {

// ---- cell mover
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

// ---- cell rotator
ModelCellRotator::ModelCellRotator(RotationKind kind, const ModelConfig& config,
                                   const CellLayout& cells, const kernels::KernelTable& kernels,
                                   const ModelRopes& ropes, Memory& memory,
                                   std::optional<std::uint32_t> key_form)
    : kind_(kind),
      key_form_(key_form),
      config_(config),
      cells_(cells),
      kernels_(kernels),
      ropes_(ropes),
      memory_(memory),
      key_(std::max(config.head_dim_k, config.window_head_dim)),
      cosine_(ropes.kind_count() * ropes.pair_count_max()),
      sine_(cosine_.size()) {}

void ModelCellRotator::CopyCell(std::uint32_t group, BlockId source_block,
                                std::uint32_t source_cell, BlockId destination_block,
                                std::uint32_t destination_cell) {
  const std::byte* source = memory_.BlockBytes(group, source_block);
  std::byte* destination = memory_.BlockBytes(group, destination_block);
  for (std::size_t layer = 0; layer < config_.layer_count; ++layer) {
    if (cells_.groups[layer] != group) continue;
    for (std::size_t head = 0; head < cells_.layers[layer].kv_head_count; ++head) {
      std::memcpy(destination + cells_.KRow(layer, head, destination_cell),
                  source + cells_.KRow(layer, head, source_cell), cells_.layers[layer].k_row_bytes);
      if (cells_.layers[layer].values_in_keys) continue;
      std::memcpy(destination + cells_.VRow(layer, head, destination_cell),
                  source + cells_.VRow(layer, head, source_cell), cells_.layers[layer].v_row_bytes);
    }
  }
}

Status ModelCellRotator::RotateCell(std::uint32_t group, BlockId source_block,
                                    std::uint32_t source_cell, Pos from, BlockId destination_block,
                                    std::uint32_t destination_cell, Pos to) {
  const std::uint32_t from_form = memory_.BlockCells(group, source_block)[source_cell].key_form;
  const std::uint32_t to_form = key_form_.value_or(from_form);
  // A conversion to f32 and back would lose bits of a quantised key, so unrotated cells are copied.
  const bool turns = config_.has_rope && (from != to || from_form != to_form);
  if (!turns && kind_ != RotationKind::kLlamaShift) {
    CopyCell(group, source_block, source_cell, destination_block, destination_cell);
    return {};
  }
  const bool backwards = kind_ == RotationKind::kLlamaDivide;
  const std::size_t stride = ropes_.pair_count_max();
  for (std::size_t kind = 0; kind < ropes_.kind_count(); ++kind) {
    ropes_.table(kind, to_form)
        .FillDifference(ropes_.table(kind, from_form), backwards ? to : from, backwards ? from : to,
                        cosine_.data() + kind * stride, sine_.data() + kind * stride);
  }
  const std::byte* source = memory_.BlockBytes(group, source_block);
  std::byte* destination = memory_.BlockBytes(group, destination_block);
  bool finite = true;
  for (std::size_t layer = 0; layer < config_.layer_count; ++layer) {
    if (cells_.groups[layer] != group) continue;
    const RopeConfig& rope = config_.rope_of(layer);
    const std::size_t dim = config_.key_dim(layer);
    const std::size_t angle = ModelRopes::KindOf(config_, layer) * stride;
    for (std::size_t head = 0; head < cells_.layers[layer].kv_head_count; ++head) {
      kernels_.decode_row(cells_.k_type, source + cells_.KRow(layer, head, source_cell),
                          key_.data(), dim);
      if (config_.rotates(layer)) {
        kernels_.rope(key_.data() + rope.first_rotated, 1, dim, rope.rotated_dim, rope.interleaved,
                      cosine_.data() + angle, sine_.data() + angle);
      }
      if (kind_ == RotationKind::kLlamaShift && config_.rotates(layer)) {
        float* const rotated = key_.data() + rope.first_rotated;
        kernels_.scale(rotated, rope.attention_factor, rope.rotated_dim, rotated);
      }
      finite &= kernels_.encode_row(cells_.k_type, key_.data(),
                                    destination + cells_.KRow(layer, head, destination_cell), dim);
      if (cells_.layers[layer].values_in_keys) continue;
      std::memcpy(destination + cells_.VRow(layer, head, destination_cell),
                  source + cells_.VRow(layer, head, source_cell), cells_.layers[layer].v_row_bytes);
    }
  }
  if (!finite) return Fail(Code::kNumerical, "a key is not finite after its rotation");
  return {};
}

}  // namespace kvd
