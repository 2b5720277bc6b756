#include "engine/memory/holds_and_restores.h"

#include <algorithm>

#include "base/check.h"
#include "engine/memory/record_functions.h"

namespace kvd {
namespace {

// Appends tokens and effective positions of the cells [begin, end) of a list of group 0.
void AppendCellRecords(const ExtentView& view, std::uint32_t begin, std::uint32_t end,
                       const MetaView& meta, std::vector<TokenId>* tokens,
                       std::vector<Pos>* positions) {
  for (std::size_t index = FindExtent(view, begin);
       index < view.entries.size() && view.entries[index].start < end; ++index) {
    const layout::Extent& extent = view.entries[index];
    const layout::CellRecord* const cells = meta.cells(0, extent.block) + extent.first;
    for (std::uint32_t at = std::max(begin, extent.start); at < std::min(end, view.EndOf(index));
         ++at) {
      const layout::CellRecord& cell = cells[at - extent.start];
      tokens->push_back(cell.token);
      positions->push_back(
          Pos{static_cast<std::int32_t>(std::int64_t{cell.stored_pos} + extent.delta)});
    }
  }
}

}  // namespace

Status Holds::Begin(SequenceHandle handle, SequenceHold* hold) {
  const MutexLock lock(store_.mutex);
  KVD_TRY(const FoundSequence found, store_.FindWhole(handle));
  const layout::SequenceRecord& record = *found.record;
  KVD_ASSERT(!hold->is_held);
  hold->info = store_.Describe(found.index);
  hold->group_count = store_.group_count();
  hold->cross_group = store_.geometry().cross_group;
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    const ExtentView view = store_.ViewOf(record, group);
    GroupPart& part = hold->parts[group];
    part.extents.assign(view.entries.begin(), view.entries.end());
    part.first_cell = view.first_cell();
    part.cell_count = view.cell_count;
    part.first_new_extent = static_cast<std::uint32_t>(part.extents.size());
  }
  const auto checkpoints = store_.meta.checkpoints(record.checkpoints);
  hold->checkpoints.assign(checkpoints.begin(), checkpoints.end());
  // Only the copies above can fail; the following code cannot fail, so no error leaves a partial
  // hold.
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    const ExtentView view = store_.ViewOf(record, group);
    for (std::size_t index = 0; index < view.entries.size(); ++index) {
      const BlockRange range = view.RangeAt(index);
      store_.allocators[group].Hold(range.block, std::uint32_t{range.first} + range.count,
                                    hold->owner);
    }
  }
  hold->state_slot = record.state_slot;
  hold->logits_slot = record.logits_slot;
  store_.states.Hold(hold->state_slot, hold->owner);
  store_.logits.Pin(hold->logits_slot);
  for (const layout::Checkpoint& checkpoint : hold->checkpoints)
    store_.states.Hold(checkpoint.state_slot, hold->owner);
  hold->is_held = true;
  if (hold->is_brief) ++store_.brief_holds;
  return {};
}

void Holds::Release(SequenceHold& hold) {
  {
    const MutexLock lock(store_.mutex);
    KVD_ASSERT(hold.is_held);
    for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
      for (const layout::Extent& extent : hold.parts[group].extents) {
        store_.allocators[group].EndHold(extent.block, store_.tables.blocks[group]);
      }
    }
    store_.states.EndHold(hold.state_slot, store_.tables.states);
    store_.logits.Unpin(hold.logits_slot, store_.tables.logits);
    for (const layout::Checkpoint& checkpoint : hold.checkpoints) {
      store_.states.EndHold(checkpoint.state_slot, store_.tables.states);
    }
    hold.is_held = false;
    if (hold.is_brief) --store_.brief_holds;
  }
  if (hold.is_brief) store_.brief_hold_ended.NotifyAll();
  store_.ReturnUnusedSlabs();
}

// Large ranges are read from a hold, without the lock.
Status Holds::ReadCells(SequenceHandle handle, std::uint32_t first_cell, std::uint32_t count,
                        std::vector<TokenId>* tokens, std::vector<Pos>* positions) {
  tokens->clear();
  positions->clear();
  // The vectors reserve their memory without the lock. A sequence may have more cells than the
  // pool, because it may refer to a cell twice.
  const std::size_t cells_max = std::size_t{store_.geometry().block_count[0]} * layout::kBlockCells;
  tokens->reserve(std::min<std::size_t>(count, cells_max));
  positions->reserve(std::min<std::size_t>(count, cells_max));
  const auto end_of = [&](const ExtentView& view) {
    const std::uint32_t first = std::min(first_cell, view.cell_count);
    return first + std::min(count, view.cell_count - first);
  };
  {
    const MutexLock lock(store_.mutex);
    KVD_TRY(const FoundSequence found, store_.Find(handle));
    const ExtentView view = store_.ViewOf(*found.record);
    const std::uint32_t end = end_of(view);
    if (end <= first_cell) return {};
    if (end - first_cell <= kCellsReadAtOnce) {
      AppendCellRecords(view, first_cell, end, store_.meta, tokens, positions);
      store_.looks.cells_at_once =
          std::max<std::uint64_t>(store_.looks.cells_at_once, end - first_cell);
      return {};
    }
  }
  SequenceHold hold;
  hold.is_brief = true;
  KVD_CHECK_OK(Begin(handle, &hold));
  const ExtentView view = {hold.parts[0].extents, hold.parts[0].cell_count};
  const std::uint32_t end = end_of(view);  // the sequence may have become shorter
  if (first_cell < end) AppendCellRecords(view, first_cell, end, store_.meta, tokens, positions);
  Release(hold);
  return {};
}

}  // namespace kvd
