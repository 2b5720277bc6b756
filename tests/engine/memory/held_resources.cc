#include "tests/engine/memory/held_resources.h"

#include <array>
#include <set>

namespace kvd::memory_model {
namespace {

bool IsHeldBy(const layout::SequenceRecord& record, OwnerId owner) {
  if ((record.flags & layout::kSequenceLive) == 0 || OwnerId{record.owner} != owner) return false;
  return (record.flags & layout::kSequenceRetained) == 0 ||
         (record.flags & (layout::kSequencePinned | layout::kSequencePublished)) != 0;
}

}  // namespace

OwnerUse HeldBy(const ConstMetaView& meta, OwnerId owner) {
  OwnerUse held;
  std::array<std::set<std::uint32_t>, layout::kGroupsMax> blocks;
  std::set<std::uint32_t> states, checkpoints, rows;
  for (const layout::SequenceRecord& record : meta.sequences()) {
    if (!IsHeldBy(record, owner)) continue;
    ++held.sequences;
    for (std::uint32_t group = 0; group < meta.geometry().group_count; ++group) {
      for (const layout::Extent& extent : meta.entries(record.extents[group])) {
        blocks[group].insert(extent.block);
      }
      held.list_units += record.extents[group].capacity_units;
    }
    held.list_units += record.checkpoints.capacity_units;
    for (const layout::Checkpoint& checkpoint : meta.checkpoints(record.checkpoints)) {
      checkpoints.insert(checkpoint.state_slot);
    }
    if (record.state_slot != layout::kNoSlot) states.insert(record.state_slot);
    if (record.logits_slot != layout::kNoSlot) rows.insert(record.logits_slot);
  }
  for (std::uint32_t group = 0; group < layout::kGroupsMax; ++group) {
    held.blocks[group] = blocks[group].size();
  }
  held.state_slots = states.size();
  held.checkpoint_slots = checkpoints.size();
  held.logits_rows = rows.size();
  return held;
}

std::string Excess(const OwnerUse& held, const OwnerLimits& limits) {
  const auto compare = [](const std::string& what, std::uint64_t number,
                          std::uint64_t limit) -> std::string {
    if (number <= limit) return "";
    return what + ": " + std::to_string(number) + " held of " + std::to_string(limit);
  };
  std::string excess = compare("sequences", held.sequences, limits.sequences);
  for (std::uint32_t group = 0; excess.empty() && group < layout::kGroupsMax; ++group) {
    excess = compare("blocks of group " + std::to_string(group), held.blocks[group],
                     limits.blocks[group]);
  }
  if (excess.empty()) excess = compare("state slots", held.state_slots, limits.state_slots);
  if (excess.empty()) {
    excess = compare("checkpoint slots", held.checkpoint_slots, limits.checkpoint_slots);
  }
  if (excess.empty()) excess = compare("list units", held.list_units, limits.list_units);
  if (excess.empty()) excess = compare("logits rows", held.logits_rows, limits.logits_rows);
  return excess;
}

}  // namespace kvd::memory_model
