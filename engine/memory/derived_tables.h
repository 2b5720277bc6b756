// DerivedTables: everything that a memory keeps beside `meta` and could rebuild from it at any
// moment.
//
// The memory changes them along with each commit; RebuildTables makes them from the bytes alone.
// That both are equal after every operation is what the model test checks.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/memory/block_table.h"
#include "engine/memory/free_set.h"
#include "engine/memory/list_arena.h"
#include "engine/memory/owner_table.h"
#include "engine/memory/slot_table.h"

namespace kvd {

// Cells of one group in a record's list end at this ordinal.
constexpr std::uint32_t CellCountOf(const layout::SequenceRecord& record,
                                    const layout::MetaGeometry& geometry, std::uint32_t group) {
  return group == geometry.cross_group ? record.cross_cells : record.cell_count;
}

// What lost its last reference, by number.
struct FreedParts {
  std::array<std::vector<std::uint32_t>, layout::kGroupsMax> blocks;
  std::vector<std::uint32_t> states;
  std::vector<std::uint32_t> logits;
};

struct DerivedTables {
  std::array<BlockTable, layout::kGroupsMax> blocks;  // by group
  SlotTable states;
  SlotTable logits;
  ListArena lists;
  FreeSet sequences;  // free records
  FreeSet snapshots;
  std::map<std::string, std::uint32_t, std::less<>> snapshots_by_name;  // index of the record
  FreeSet sessions;
  std::map<std::uint64_t, std::uint32_t> sessions_by_id;  // index of the record
  OwnerTable owners;

  DerivedTables() = default;
  // Of an empty meta.
  explicit DerivedTables(const layout::MetaGeometry& geometry)
      : states(geometry.state_slot_count),
        logits(geometry.logits_row_count),
        lists(geometry.list_unit_count),
        sequences(geometry.sequence_capacity),
        snapshots(geometry.snapshot_capacity),
        sessions(geometry.session_capacity),
        owners(geometry.sequence_capacity) {
    for (std::uint32_t group = 0; group < layout::kGroupsMax; ++group) {
      blocks[group] = BlockTable(geometry.block_count[group]);
    }
  }

  // Counts the cells, slots and checkpoints that `times` records like this one refer to; not the
  // room of its lists.
  template <class Meta>
  void AddReferences(const Meta& meta, const layout::SequenceRecord& record, Holder holder,
                     std::uint32_t times = 1) {
    const layout::MetaGeometry& geometry = meta.geometry();
    for (std::uint32_t group = 0; group < geometry.group_count; ++group) {
      blocks[group].AddList(
          {meta.entries(record.extents[group]), CellCountOf(record, geometry, group)}, holder,
          times);
    }
    AddSlots(meta, record, holder, times);
  }
  template <class Meta>
  void AddSlots(const Meta& meta, const layout::SequenceRecord& record, Holder holder,
                std::uint32_t times = 1) {
    if (record.state_slot != layout::kNoSlot) states.Add(record.state_slot, holder, times);
    if (record.logits_slot != layout::kNoSlot) logits.Add(record.logits_slot, holder, times);
    for (const layout::Checkpoint& checkpoint : meta.checkpoints(record.checkpoints)) {
      if (checkpoint.state_slot != layout::kNoSlot)
        states.AddCheckpoint(checkpoint.state_slot, holder, times);
    }
  }
  // Uncounts one.
  template <class Meta>
  void DropReferences(const Meta& meta, const layout::SequenceRecord& record, Holder holder,
                      FreedParts* freed) {
    const layout::MetaGeometry& geometry = meta.geometry();
    for (std::uint32_t group = 0; group < geometry.group_count; ++group) {
      blocks[group].DropList(
          {meta.entries(record.extents[group]), CellCountOf(record, geometry, group)}, holder,
          &freed->blocks[group]);
    }
    DropSlots(meta, record, holder, freed);
  }
  template <class Meta>
  void DropSlots(const Meta& meta, const layout::SequenceRecord& record, Holder holder,
                 FreedParts* freed) {
    const auto note = [](bool is_freed, std::uint32_t slot, std::vector<std::uint32_t>* slots) {
      if (is_freed) slots->push_back(slot);
    };
    if (record.state_slot != layout::kNoSlot) {
      note(states.Drop(record.state_slot, holder), record.state_slot, &freed->states);
    }
    if (record.logits_slot != layout::kNoSlot) {
      note(logits.Drop(record.logits_slot, holder), record.logits_slot, &freed->logits);
    }
    for (const layout::Checkpoint& checkpoint : meta.checkpoints(record.checkpoints)) {
      if (checkpoint.state_slot != layout::kNoSlot) {
        note(states.DropCheckpoint(checkpoint.state_slot, holder), checkpoint.state_slot,
             &freed->states);
      }
    }
  }

  OwnerUse UseOf(OwnerId owner) const {
    OwnerUse use = owners.UseOf(owner);
    for (std::uint32_t group = 0; group < layout::kGroupsMax; ++group) {
      use.blocks[group] = blocks[group].CountOwned(owner);
    }
    use.state_slots = states.CountOwned(owner);
    use.checkpoint_slots = states.CountOwnedCheckpoints(owner);
    use.logits_rows = logits.CountOwned(owner);
    return use;
  }

  friend bool operator==(const DerivedTables&, const DerivedTables&) = default;
};

}  // namespace kvd
