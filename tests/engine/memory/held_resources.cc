#include "tests/engine/memory/held_resources.h"

#include "engine/memory/owner_table.h"

namespace kvd::memory_model {
namespace {

// Whole blocks of the cells that the sequence still has in a group.
std::uint64_t BlocksOf(const ConstMetaView& meta, const layout::SequenceRecord& record,
                       std::uint32_t group) {
  const bool is_cross = group == meta.geometry().cross_group;
  const std::uint64_t cells = is_cross ? record.cross_cells : record.cell_count;
  const std::uint64_t first = is_cross ? 0 : record.first_cell[group];
  return (cells - first + layout::kBlockCells - 1) / layout::kBlockCells;
}

}  // namespace

HeldResources HeldBy(const ConstMetaView& meta, std::uint32_t uid) {
  HeldResources held;
  for (const layout::SequenceRecord& record : meta.sequences()) {
    if ((record.flags & layout::kSequenceLive) == 0 || record.owner_uid != uid ||
        IsEvictable(record.flags)) {
      continue;
    }
    ++held.sequences;
    for (std::uint32_t group = 0; group < meta.geometry().group_count; ++group) {
      held.blocks[group] += BlocksOf(meta, record, group);
      held.list_units += record.extents[group].capacity_units;
    }
    held.list_units += record.checkpoints.capacity_units;
    held.checkpoint_slots += record.checkpoints.entry_count;
    held.state_slots += record.state_slot != layout::kNoSlot;
    held.logits_rows += record.logits_slot != layout::kNoSlot;
  }
  return held;
}

std::string Excess(const HeldResources& held, const HeldResources& share) {
  const auto compare = [](const std::string& what, std::uint64_t number,
                          std::uint64_t limit) -> std::string {
    if (number <= limit) return "";
    return what + ": " + std::to_string(number) + " held of " + std::to_string(limit);
  };
  std::string excess = compare("sequences", held.sequences, share.sequences);
  for (std::uint32_t group = 0; excess.empty() && group < layout::kGroupsMax; ++group) {
    excess = compare("blocks of group " + std::to_string(group), held.blocks[group],
                     share.blocks[group]);
  }
  if (excess.empty()) excess = compare("state slots", held.state_slots, share.state_slots);
  if (excess.empty()) {
    excess = compare("checkpoint slots", held.checkpoint_slots, share.checkpoint_slots);
  }
  if (excess.empty()) excess = compare("list units", held.list_units, share.list_units);
  if (excess.empty()) excess = compare("logits rows", held.logits_rows, share.logits_rows);
  return excess;
}

}  // namespace kvd::memory_model
