// DerivedTables: the tables that a memory keeps in addition to `meta` and can rebuild from `meta`
// at any moment.
//
// Each commit updates the tables; RebuildTables makes the same tables from the bytes of `meta`
// alone. The model test checks after every operation that the updated tables equal the tables that
// RebuildTables makes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/memory/block_table.h"
#include "engine/memory/item_sets.h"
#include "engine/memory/list_arena.h"
#include "engine/memory/owner_table.h"
#include "engine/memory/slot_table.h"

namespace kvd {

// The ordinal after the last cell of the record's list in one group.
constexpr std::uint32_t CellCountOf(const layout::SequenceRecord& record,
                                    const layout::MetaGeometry& geometry, std::uint32_t group) {
  return group == geometry.cross_group ? record.cross_cells : record.cell_count;
}

// Blocks and slots that lost their last reference, by number.
struct FreedNumbers {
  std::array<std::vector<std::uint32_t>, layout::kGroupsMax> blocks;
  std::vector<std::uint32_t> states;
  std::vector<std::uint32_t> logits;
};

// The name and the owner of a snapshot, and their order.
using SnapshotKey = std::pair<std::string_view, OwnerId>;
struct SnapshotOrder {
  using is_transparent = void;  // NOLINT(readability-identifier-naming): the name of std::map
  template <class A, class B>
  bool operator()(const A& a, const B& b) const {
    return SnapshotKey(a.first, a.second) < SnapshotKey(b.first, b.second);
  }
};

struct DerivedTables {
  std::array<BlockTable, layout::kGroupsMax> blocks;  // by group
  SlotTable states;
  SlotTable logits;
  ListArena lists;
  FreeSet sequences;  // free records
  FreeSet snapshots;
  // The number of each snapshot's record: by name and owner, and, for snapshots that every uid may
  // attach, by name.
  std::map<std::pair<std::string, OwnerId>, std::uint32_t, SnapshotOrder> snapshots_by_name;
  std::map<std::string, std::uint32_t, std::less<>> public_snapshots;
  FreeSet sessions;
  // The index of the session's record, by session id.
  std::map<std::uint64_t, std::uint32_t> sessions_by_id;
  OwnerTable owners;

  DerivedTables() = default;
  // The tables of an empty meta.
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

  // Adds the references of `times` records equal to `record` to the counts of cells, slots and
  // checkpoints. The list units of the record's lists are not counted.
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
  // Removes the references of one record from the counts, and appends the blocks and slots that
  // lose their last reference to `freed`.
  template <class Meta>
  void DropReferences(const Meta& meta, const layout::SequenceRecord& record, Holder holder,
                      FreedNumbers* freed) {
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
                 FreedNumbers* freed) {
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
