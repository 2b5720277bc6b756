// Re-rotates the key of a cell for another position: what dividing positions and settling shifted
// cells need.
//
// Owned by the engine, called on its thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/cell_layout.h"
#include "engine/memory/memory.h"
#include "engine/model_config.h"
#include "engine/model_ropes.h"
#include "kernels/kernel_table.h"

namespace kvd {

// kExact: the key as if it had been computed at the new position. The other two repeat what
// llama.cpp of August 2026 does (docs/decisions/0005): its division turns a key by old - new
// instead of new - old, and its shift multiplies by the attention factor of YaRN once more.
enum class RotationKind : std::uint8_t { kExact, kLlamaDivide, kLlamaShift };

class ModelCellRotator final : public CellRotator {
 public:
  // The arguments outlive the object.
  // key_form: of the rotated cells; unset: that which they had.
  ModelCellRotator(RotationKind kind, const ModelConfig& config, const CellLayout& cells,
                   const kernels::KernelTable& kernels, const ModelRopes& ropes, Memory& memory,
                   std::optional<std::uint32_t> key_form = std::nullopt);

  // kNumerical when a key is not finite in the cells' type after the rotation.
  Status RotateCell(std::uint32_t group, BlockId source_block, std::uint32_t source_cell, Pos from,
                    BlockId destination_block, std::uint32_t destination_cell, Pos to) override;

 private:
  void CopyCell(std::uint32_t group, BlockId source_block, std::uint32_t source_cell,
                BlockId destination_block, std::uint32_t destination_cell);

  const RotationKind kind_;
  const std::optional<std::uint32_t> key_form_;
  const ModelConfig& config_;
  const CellLayout& cells_;
  const kernels::KernelTable& kernels_;
  const ModelRopes& ropes_;
  Memory& memory_;
  std::vector<float> key_;     // [head_dim_k]
  std::vector<float> cosine_;  // [kind of layer, pairs of the kind with most]
  std::vector<float> sine_;
};

}  // namespace kvd
