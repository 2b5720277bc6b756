// DerivedTables: everything that a memory keeps beside `meta` and could rebuild from it at any
// moment.
//
// The memory changes them along with each commit; RebuildTables makes them from the bytes alone.
// That both are equal after every operation is what the model test checks.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "engine/memory/block_table.h"
#include "engine/memory/free_set.h"
#include "engine/memory/list_arena.h"

namespace kvd {

// A reference to a slot, as a table of blocks counts it.
constexpr Piece SlotPiece(std::uint32_t slot) { return {slot, 0, layout::kBlockCells, 0}; }

struct DerivedTables {
  BlockTable blocks;  // of group 0
  // References to state slots and rows of logits: one to a slot is a piece of all its block.
  BlockTable states;
  BlockTable logits;
  BlockTable checkpoints;  // of those to state slots, the ones from checkpoints
  ListArena lists;
  FreeSet sequences;  // free records
  FreeSet snapshots;
  std::map<std::string, std::uint32_t, std::less<>> snapshots_by_name;  // index of the record

  DerivedTables() = default;
  // Of an empty meta.
  explicit DerivedTables(const layout::MetaGeometry& geometry)
      : blocks(geometry.block_count[0]),
        states(geometry.state_slot_count),
        logits(geometry.logits_row_count),
        checkpoints(geometry.state_slot_count),
        lists(geometry.list_unit_count),
        sequences(geometry.sequence_capacity),
        snapshots(geometry.snapshot_capacity) {}

  // Counts what `times` records that are all equal to `record` refer to beside their cells.
  void AddState(const layout::SequenceRecord& record,
                std::span<const layout::Checkpoint> record_checkpoints, Holder holder,
                std::uint32_t times) {
    if (record.state_slot != layout::kNoSlot) {
      states.Add(SlotPiece(record.state_slot), holder, times);
    }
    if (record.logits_slot != layout::kNoSlot) {
      logits.Add(SlotPiece(record.logits_slot), holder, times);
    }
    for (const layout::Checkpoint& checkpoint : record_checkpoints) {
      states.Add(SlotPiece(checkpoint.state_slot), holder, times);
      checkpoints.Add(SlotPiece(checkpoint.state_slot), holder, times);
    }
  }

  friend bool operator==(const DerivedTables&, const DerivedTables&) = default;
};

}  // namespace kvd
