// What the memory lets the engine do with the bytes of cells: move them, and rotate their keys.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/memory/geometry.h"
#include "engine/memory/memory.h"
#include "engine/model/model_config.h"
#include "engine/model/rope_table.h"
#include "kernels/kernel_table.h"

namespace kvd {

// PoolCellMover: copies the K and V rows of cells from one block of the pool to another, for
// defragmentation.
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

// ModelCellRotator: rotates the key of a cell from one position to another. The engine uses it to
// divide positions, to settle shifted cells and to change the form of keys.
//
// Owned by the engine, used on the engine thread.

// kExact: the result of a rotation is the key as if the key had been computed at the new position.
// kLlamaDivide and kLlamaShift reproduce llama.cpp of August 2026 (docs/decisions/0005):
// kLlamaDivide rotates a key by the old position minus the new one, instead of the new one minus
// the old one; kLlamaShift also multiplies the key by the attention factor of YaRN once more.
enum class RotationKind : std::uint8_t { kExact, kLlamaDivide, kLlamaShift };

class ModelCellRotator final : public CellRotator {
 public:
  // The arguments outlive the ModelCellRotator. key_form: the form of the rotated keys; unset: each
  // key keeps its form.
  ModelCellRotator(RotationKind kind, const ModelConfig& config, const CellLayout& cells,
                   const kernels::KernelTable& kernels, const ModelRopes& ropes, Memory& memory,
                   std::optional<std::uint32_t> key_form = std::nullopt);

  // Errors: kNumerical (a rotated key is not finite in the type of the cells).
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
  std::vector<float> key_;     // one key of the layer with the longest keys
  std::vector<float> cosine_;  // [kind of layer, pairs of the kind with the most pairs]
  std::vector<float> sine_;
};

}  // namespace kvd
