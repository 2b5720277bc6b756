// TagRotator and TagMover: a CellRotator and a CellMover that copy the cell tags of
// MemoryInspector.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "engine/memory/memory.h"
#include "tests/engine/memory/memory_inspector.h"
#include "tests/engine/memory/reference_memory.h"

namespace kvd::memory_model {

// TagRotator: rewrites the tags of cells in the way in which a rotation rewrites keys. Expects to
// be called for exactly the cells that the reference rewrites, in order, and expects that no
// sequence refers to the destination cells.
class TagRotator : public CellRotator {
 public:
  TagRotator(const Memory& memory, const MemoryInspector& inspector,
             std::vector<ReferenceCell> cells, std::int32_t divisor, std::uint32_t first_id)
      : memory_(memory),
        inspector_(inspector),
        cells_(std::move(cells)),
        divisor_(divisor),
        next_id_(first_id) {}

  void FailAt(std::int64_t cell) { fails_at_ = cell; }
  // Sets a function that is called before the rotation of cell `cell` (0: the first cell).
  void InterruptAt(std::int64_t cell, std::function<void()> interrupt) {
    interrupted_at_ = cell;
    interrupt_ = std::move(interrupt);
  }
  bool has_failed() const { return has_failed_; }
  std::size_t rotated() const { return rotated_; }

  Status RotateCell(std::uint32_t, BlockId source_block, std::uint32_t source_cell, Pos from,
                    BlockId destination_block, std::uint32_t destination_cell, Pos to) override {
    const auto number = static_cast<std::int64_t>(rotated_);
    if (number == interrupted_at_) interrupt_();
    if (number == fails_at_) {
      has_failed_ = true;
      return Fail(Code::kNumerical, "rotator: told to fail");
    }
    const ReferenceCell& cell = cells_.at(rotated_);
    EXPECT_EQ(from.value, cell.position - cell.shift);
    EXPECT_EQ(to.value, cell.position / divisor_);
    const auto source = static_cast<std::uint32_t>(source_block);
    const CellTag k = inspector_.ReadK(source, source_cell);
    const CellTag v = inspector_.ReadV(source, source_cell);
    EXPECT_EQ(k, (CellTag{cell.k_id, from.value}));
    EXPECT_EQ(v, (CellTag{cell.v_id, cell.token}));
    EXPECT_FALSE(memory_.is_free_block(0, source));

    const auto destination = static_cast<std::uint32_t>(destination_block);
    EXPECT_FALSE(memory_.is_free_block(0, destination));
    EXPECT_FALSE(memory_.derived().blocks[0].is_used(destination));
    EXPECT_EQ(destination_cell, rotated_ % layout::kBlockCells);
    EXPECT_TRUE(destination_cell == 0 || destination == last_destination_);
    last_destination_ = destination;
    inspector_.OpenPool();
    inspector_.Write(destination, destination_cell, {next_id_++, to.value}, v);
    inspector_.ClosePool();
    ++rotated_;
    return {};
  }

 private:
  const Memory& memory_;
  const MemoryInspector& inspector_;
  std::vector<ReferenceCell> cells_;
  std::int32_t divisor_;
  std::uint32_t next_id_;
  std::int64_t fails_at_ = -1;
  std::int64_t interrupted_at_ = -1;
  std::function<void()> interrupt_;
  bool has_failed_ = false;
  std::size_t rotated_ = 0;
  std::uint32_t last_destination_ = 0;
};

// Moves tags as the engine moves cells.
class TagMover : public CellMover {
 public:
  TagMover(const MemoryInspector& inspector, std::function<void()> interrupt)
      : inspector_(inspector), interrupt_(std::move(interrupt)) {}

  void MoveCells(std::uint32_t, BlockId source_block, std::uint32_t source_cell,
                 BlockId destination_block, std::uint32_t destination_cell,
                 std::uint32_t count) override {
    interrupt_();
    inspector_.OpenPool();
    for (std::uint32_t k = 0; k < count; ++k) {
      const auto source = static_cast<std::uint32_t>(source_block);
      inspector_.Write(static_cast<std::uint32_t>(destination_block), destination_cell + k,
                       inspector_.ReadK(source, source_cell + k),
                       inspector_.ReadV(source, source_cell + k));
    }
    inspector_.ClosePool();
    moved_ += count;
  }
  std::uint64_t moved() const { return moved_; }

 private:
  const MemoryInspector& inspector_;
  std::function<void()> interrupt_;
  std::uint64_t moved_ = 0;
};
}  // namespace kvd::memory_model
