// Holds: references to a sequence's blocks and slots that only this process knows of. The tables
// that are derived from `meta` do not count them, so a hold is no commit and a killed process
// leaves none behind.
#include "engine/memory/hold_and_restore.h"
#include "engine/memory/record_functions.h"
#include "engine/memory/unified_memory.h"
#include "shm/check.h"

namespace kvd {

Status UnifiedMemory::Hold(SequenceHandle handle, SequenceHold* hold) {
  const MutexLock lock(mutex_);
  KVD_TRY(const Found found, Find(handle));
  const layout::SequenceRecord& record = *found.record;
  KVD_ASSERT(!hold->is_held);
  hold->info = Describe(found.index, record);
  hold->group_count = group_count();
  hold->cross_group = meta_.geometry().cross_group;
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    const ExtentView view = ViewOf(record, group);
    GroupPart& part = hold->parts[group];
    part.extents.assign(view.entries.begin(), view.entries.end());
    part.first_cell = view.first_cell();
    part.cell_count = view.cell_count;
    part.first_new_extent = static_cast<std::uint32_t>(part.extents.size());
    for (std::size_t index = 0; index < view.entries.size(); ++index) {
      const Piece piece = view.PieceAt(index);
      allocators_[group].Hold(piece.block, std::uint32_t{piece.first} + piece.count);
    }
  }
  const auto checkpoints = meta_.checkpoints(record.checkpoints);
  hold->checkpoints.assign(checkpoints.begin(), checkpoints.end());
  hold->state_slot = record.state_slot;
  hold->logits_slot = record.logits_slot;
  states_.Pin(hold->state_slot);
  logits_.Pin(hold->logits_slot);
  for (const layout::Checkpoint& checkpoint : hold->checkpoints) states_.Pin(checkpoint.state_slot);
  hold->is_held = true;
  if (hold->is_brief) ++brief_holds_;
  return {};
}

bool UnifiedMemory::AwaitBriefHolds(const Status& refused) {
  if (refused || refused.error().code != Code::kNoSpace) return false;
  const MutexLock lock(mutex_);
  if (brief_holds_ == 0) return false;
  while (brief_holds_ != 0) brief_hold_ended_.Wait(mutex_);
  return true;
}

void UnifiedMemory::ReleaseHold(SequenceHold& hold) {
  {
    const MutexLock lock(mutex_);
    KVD_ASSERT(hold.is_held);
    for (std::uint32_t group = 0; group < group_count(); ++group) {
      for (const layout::Extent& extent : hold.parts[group].extents) {
        allocators_[group].EndHold(extent.block, tables_.blocks[group]);
      }
    }
    states_.Unpin(hold.state_slot, tables_.states);
    logits_.Unpin(hold.logits_slot, tables_.logits);
    for (const layout::Checkpoint& checkpoint : hold.checkpoints) {
      states_.Unpin(checkpoint.state_slot, tables_.states);
    }
    hold.is_held = false;
    if (hold.is_brief) --brief_holds_;
  }
  if (hold.is_brief) brief_hold_ended_.NotifyAll();
  ReturnUnusedSlabs();
}

}  // namespace kvd
