// Recurrent state: slots of the pool that records and checkpoints refer to, and rows of logits.
//
// A committed slot is as immutable as a cell. So keeping a checkpoint, forking and going back to a
// checkpoint write references and nothing else. A reference to a slot is counted as a piece that
// covers all of its "block".
#include <algorithm>
#include <cstring>
#include <string>

#include "engine/memory/record_functions.h"
#include "engine/memory/unified_memory.h"
#include "shm/check.h"
#include "shm/crc32c.h"

namespace kvd {
namespace {

// The entry that is missed least: the one whose neighbours are nearest to each other. The last one
// is kept.
std::size_t LeastUseful(std::span<const layout::Checkpoint> checkpoints) {
  std::size_t least = 0;
  std::uint32_t least_gap = ~0u;
  for (std::size_t at = 0; at + 1 < checkpoints.size(); ++at) {
    const std::uint32_t before = at == 0 ? 0 : checkpoints[at - 1].cell_count;
    const std::uint32_t gap = checkpoints[at + 1].cell_count - before;
    if (gap < least_gap) {
      least_gap = gap;
      least = at;
    }
  }
  return least;
}

}  // namespace

std::span<const layout::Checkpoint> UnifiedMemory::CheckpointsOf(
    const layout::SequenceRecord& record) const {
  return meta_.checkpoints(record.checkpoints);
}

void UnifiedMemory::AddStateReferences(const layout::SequenceRecord& record, Holder holder,
                                       std::uint32_t times) {
  tables_.AddState(record, CheckpointsOf(record), holder, times);
}

void UnifiedMemory::DropStateReferences(const layout::SequenceRecord& record, Holder holder) {
  std::vector<std::uint32_t>& freed = freed_slots_;
  freed.clear();
  if (record.state_slot != layout::kNoSlot) {
    tables_.states.Drop(SlotPiece(record.state_slot), holder, &freed);
  }
  for (const layout::Checkpoint& checkpoint : CheckpointsOf(record)) {
    tables_.states.Drop(SlotPiece(checkpoint.state_slot), holder, &freed);
  }
  for (const std::uint32_t slot : freed) state_allocator_.Unreferenced(slot);
  freed.clear();
  for (const layout::Checkpoint& checkpoint : CheckpointsOf(record)) {
    tables_.checkpoints.Drop(SlotPiece(checkpoint.state_slot), holder, &freed);
  }
  freed.clear();
  if (record.logits_slot != layout::kNoSlot) {
    tables_.logits.Drop(SlotPiece(record.logits_slot), holder, &freed);
    for (const std::uint32_t slot : freed) logits_allocator_.Unreferenced(slot);
    freed.clear();
  }
}

void UnifiedMemory::RecountState(const layout::SequenceRecord& old_record,
                                 const layout::SequenceRecord& new_record, Holder holder) {
  if (old_record.state_slot == new_record.state_slot &&
      old_record.logits_slot == new_record.logits_slot &&
      old_record.checkpoints == new_record.checkpoints) {
    return;
  }
  AddStateReferences(new_record, holder, 1);
  DropStateReferences(old_record, holder);
  if (old_record.checkpoints.first_unit != new_record.checkpoints.first_unit) {
    FreeList(old_record.checkpoints);
  }
}

Status UnifiedMemory::PlanState(const layout::SequenceRecord& old, std::uint32_t unchanged_cells,
                                std::uint32_t cell_count, layout::SequenceRecord* record) const {
  if (!has_state()) return {};
  record->logits_slot = layout::kNoSlot;
  if (cell_count == old.cell_count && unchanged_cells == cell_count) return {};
  const auto checkpoints = CheckpointsOf(old);
  const auto kept = static_cast<std::size_t>(
      std::ranges::upper_bound(checkpoints, unchanged_cells, {}, &layout::Checkpoint::cell_count) -
      checkpoints.begin());
  record->checkpoints = kEmptyList;
  if (kept > 0) {
    record->checkpoints = old.checkpoints;
    record->checkpoints.entry_count = static_cast<std::uint32_t>(kept);
    record->checkpoints.crc = Crc32c(0, std::as_bytes(checkpoints.first(kept)));
  }
  record->state_slot = layout::kNoSlot;
  if (cell_count == 0) return {};
  if (cell_count == unchanged_cells && kept > 0 && checkpoints[kept - 1].cell_count == cell_count) {
    record->state_slot = checkpoints[kept - 1].state_slot;
    return {};
  }
  return Fail(Code::kNeedsReplay,
              "the recurrent state behind " + std::to_string(cell_count) +
                  " cells is no checkpoint: " +
                  std::to_string(cell_count - (kept > 0 ? checkpoints[kept - 1].cell_count : 0)) +
                  " tokens to replay");
}

Status UnifiedMemory::PlanFork(const layout::SequenceRecord& source, std::uint32_t cell_count,
                               layout::SequenceRecord* record) const {
  if (cell_count == source.cell_count) {
    record->state_slot = source.state_slot;
    record->logits_slot = source.logits_slot;
    return {};
  }
  return PlanState(source, cell_count, cell_count, record);
}

Status UnifiedMemory::EnsureBytes(const BlockAllocator& allocator, std::uint32_t block) {
  if (allocator.block_stride_bytes() == 0) return {};
  return segments_.pool.EnsureReserved(allocator.OffsetOf(block), allocator.block_stride_bytes());
}

void UnifiedMemory::BeginStep() {
  allocator_.BeginStep();
  state_allocator_.BeginStep();
}

void UnifiedMemory::EndAllocations() {
  allocator_.EndStep();
  state_allocator_.EndStep();
}

std::string UnifiedMemory::NoStates(std::uint64_t needed) const {
  return "state slots: " + std::to_string(needed) + " needed, " +
         std::to_string(state_allocator_.free_blocks()) + " free of " +
         std::to_string(meta_.geometry().state_slot_count) + ", " +
         std::to_string(tables_.states.reclaimable_blocks()) + " reclaimable";
}

// ------------------------------------------------------------------------------------- checkpoints

Result<layout::ListRoot> UnifiedMemory::WriteCheckpoints(
    std::span<const layout::Checkpoint> checkpoints) {
  KVD_TRY(layout::ListRoot root, AllocateList(static_cast<std::uint32_t>(checkpoints.size())));
  if (root.entry_count == 0) return root;
  std::memcpy(meta_.list(root.first_unit), checkpoints.data(), checkpoints.size_bytes());
  root.crc = Crc32c(0, std::as_bytes(checkpoints));
  return root;
}

// checkpoints_ = those of `source` up to cell_count, and one there if there is room for it.
void UnifiedMemory::CollectCheckpoints(const layout::SequenceRecord& source,
                                       std::uint32_t cell_count, std::uint32_t state_slot) {
  checkpoints_.clear();
  for (const layout::Checkpoint& checkpoint : CheckpointsOf(source)) {
    if (checkpoint.cell_count <= cell_count) checkpoints_.push_back(checkpoint);
  }
  if (!checkpoints_.empty() && checkpoints_.back().cell_count == cell_count) return;
  const bool has_room = tables_.checkpoints.is_used(state_slot) ||
                        tables_.checkpoints.used_blocks() < checkpoint_slots_max_;
  if (!has_room) {
    // One of its own gives way; it frees a slot only if no fork holds it too.
    if (checkpoints_.size() < 2) return;
    checkpoints_.erase(checkpoints_.begin() +
                       static_cast<std::ptrdiff_t>(LeastUseful(checkpoints_)));
  }
  checkpoints_.push_back({cell_count, state_slot, {}});
  if (checkpoints_.size() > kCheckpointsMax) {
    checkpoints_.erase(checkpoints_.begin() +
                       static_cast<std::ptrdiff_t>(LeastUseful(checkpoints_)));
  }
}

Status UnifiedMemory::CommitState(const Found& found, const layout::SequenceRecord& record) {
  const layout::SequenceRecord old = *found.record;
  log_.Begin();
  PutRecord(found.index, record);
  KVD_CHECK_OK(log_.Commit());
  RecountState(old, record, holders_[found.index]);
  return {};
}

Result<bool> UnifiedMemory::KeepCheckpoint(SequenceHandle handle) {
  const std::scoped_lock lock(mutex_);
  KVD_TRY(const Found found, Find(handle));
  layout::SequenceRecord record = *found.record;
  if (record.state_slot == layout::kNoSlot) return false;
  CollectCheckpoints(record, record.cell_count, record.state_slot);
  if (std::ranges::equal(checkpoints_, CheckpointsOf(record))) {
    return !checkpoints_.empty() && checkpoints_.back().cell_count == record.cell_count;
  }
  KVD_TRY(record.checkpoints, WriteCheckpoints(checkpoints_));
  ++record.edit_number;
  if (Status status = CommitState(found, record); !status) {
    FreeList(record.checkpoints);
    return std::unexpected(std::move(status).error());
  }
  return true;
}

void UnifiedMemory::GiveUpCheckpoints(std::size_t slots_wanted) {
  KVD_ASSERT(!state_allocator_.step_is_running());
  while (state_allocator_.free_blocks() < slots_wanted && tables_.checkpoints.used_blocks() > 0) {
    Found most;
    for (std::uint32_t index = 0; index < meta_.geometry().sequence_capacity; ++index) {
      const layout::SequenceRecord& record = meta_.sequences()[index];
      if ((record.flags & layout::kSequenceLive) == 0) continue;
      if (most.record == nullptr ||
          record.checkpoints.entry_count > most.record->checkpoints.entry_count) {
        most = {index, &record};
      }
    }
    if (most.record == nullptr || most.record->checkpoints.entry_count == 0) return;
    layout::SequenceRecord record = *most.record;
    checkpoints_.assign(CheckpointsOf(record).begin(), CheckpointsOf(record).end());
    checkpoints_.erase(checkpoints_.begin() +
                       static_cast<std::ptrdiff_t>(LeastUseful(checkpoints_)));
    const Result<layout::ListRoot> root = WriteCheckpoints(checkpoints_);
    if (!root) return;
    record.checkpoints = *root;
    ++record.edit_number;
    if (!CommitState(most, record)) {
      FreeList(*root);
      return;
    }
  }
}

// ------------------------------------------------------------------------------------------ logits

Result<bool> UnifiedMemory::KeepLogits(SequenceHandle handle, const float* row) {
  const std::scoped_lock growth(growth_mutex_);
  std::uint32_t slot = layout::kNoSlot;
  {
    const std::scoped_lock lock(mutex_);
    KVD_CHECK_OK(Find(handle));
    if (logits_allocator_.free_blocks() == 0) GiveUpLogits();
    if (logits_allocator_.free_blocks() == 0) return false;
    slot = logits_allocator_.Hold();
  }
  Status status = EnsureBytes(logits_allocator_, slot);
  if (status) {
    std::memcpy(segments_.pool.data() + logits_allocator_.OffsetOf(slot), row,
                segments_.geometry.logits_bytes);
  }

  const std::scoped_lock lock(mutex_);
  Result<Found> found = Find(handle);
  if (status && !found) status = std::unexpected(found.error());
  if (status) {
    layout::SequenceRecord record = *found->record;
    record.logits_slot = slot;
    ++record.edit_number;
    status = CommitState(*found, record);
  }
  logits_allocator_.LetGo(slot, tables_.logits);
  if (!status) return std::unexpected(std::move(status).error());
  return true;
}

void UnifiedMemory::GiveUpLogits() {
  const std::uint32_t capacity = meta_.geometry().sequence_capacity;
  for (std::uint32_t tries = 0; tries < capacity && logits_allocator_.free_blocks() == 0; ++tries) {
    const std::uint32_t index = logits_victim_++ % capacity;
    const layout::SequenceRecord& old = meta_.sequences()[index];
    if ((old.flags & layout::kSequenceLive) == 0 || old.logits_slot == layout::kNoSlot) continue;
    layout::SequenceRecord record = old;
    record.logits_slot = layout::kNoSlot;
    ++record.edit_number;
    if (!CommitState({index, &old}, record)) return;
  }
}

Result<bool> UnifiedMemory::ReadLogits(SequenceHandle handle, float* row) const {
  const std::scoped_lock lock(mutex_);
  KVD_TRY(const Found found, Find(handle));
  if (found.record->logits_slot == layout::kNoSlot) return false;
  std::memcpy(row, segments_.pool.data() + logits_allocator_.OffsetOf(found.record->logits_slot),
              segments_.geometry.logits_bytes);
  return true;
}

std::byte* UnifiedMemory::StateBytes(std::uint32_t slot) {
  KVD_ASSERT(slot < meta_.geometry().state_slot_count);
  return segments_.pool.data() + state_allocator_.OffsetOf(slot);
}

// ------------------------------------------------------------------------------------------ rewind

Status UnifiedMemory::BeginRewind(SequenceHandle handle, PosRange range, Rewind* rewind) {
  const std::scoped_lock growth(growth_mutex_);
  {
    const std::scoped_lock lock(mutex_);
    KVD_TRY(const Found found, FindMutable(handle));
    KVD_TRY(const CellRange removed, FindCells(*found.record, range));
    const layout::SequenceRecord& record = *found.record;
    const ExtentView view = ViewOf(record);
    KVD_ASSERT(has_state() && removed.begin < removed.end);
    GiveUpCheckpoints(2);
    if (state_allocator_.free_blocks() < 2) return Fail(Code::kNoSpace, NoStates(2));

    *rewind = {};
    rewind->handle = handle;
    rewind->range = range;
    rewind->removed_cells = removed.end - removed.begin;
    rewind->content_number = content_numbers_[found.index];
    rewind->state_from = layout::kNoSlot;
    for (const layout::Checkpoint& checkpoint : CheckpointsOf(record)) {
      if (checkpoint.cell_count > removed.begin) break;
      rewind->replay_from = checkpoint.cell_count;
      rewind->state_from = checkpoint.state_slot;
    }
    new_pieces_.clear();
    AppendCells(&new_pieces_, view, 0, removed.begin);
    AppendCells(&new_pieces_, view, removed.end, view.cell_count);
    rewind->cell_count = CountCells(new_pieces_);
    rewind->extents.resize(new_pieces_.size());
    StoreExtents(new_pieces_, rewind->extents.data());
    std::uint32_t ordinal = 0;
    for (const Piece& piece : new_pieces_) {
      for (std::uint32_t k = 0; k < piece.count; ++k, ++ordinal) {
        if (ordinal < rewind->replay_from) continue;
        const layout::CellRecord& cell = meta_.cells(piece.block)[piece.first + k];
        rewind->tokens.push_back(cell.token);
        rewind->positions.push_back(
            Pos{static_cast<std::int32_t>(std::int64_t{cell.stored_pos} + piece.delta)});
      }
    }
    for (std::uint32_t& slot : rewind->slots) slot = state_allocator_.Hold();
    ++open_rewinds_;
  }
  for (const std::uint32_t slot : rewind->slots) {
    if (Status status = EnsureBytes(state_allocator_, slot); !status) {
      AbandonRewind(*rewind);
      return status;
    }
  }
  return {};
}

void UnifiedMemory::AbandonRewind(Rewind& rewind) {
  const std::scoped_lock lock(mutex_);
  --open_rewinds_;
  for (const std::uint32_t slot : rewind.slots) state_allocator_.LetGo(slot, tables_.states);
  rewind.slots = {layout::kNoSlot, layout::kNoSlot};
}

Status UnifiedMemory::CommitRewind(Rewind& rewind) {
  Status status = {};
  {
    const std::scoped_lock lock(mutex_);
    --open_rewinds_;
    const Result<Found> found = Find(rewind.handle);
    if (!found || content_numbers_[found->index] != rewind.content_number) {
      status = Fail(Code::kConflict,
                    HandleText(rewind.handle) + ": changed while its state was computed again");
    } else {
      KVD_ASSERT(rewind.done == rewind.tokens.size());
      const layout::SequenceRecord& record = *found->record;
      const ExtentView view = ViewOf(record);
      const CellRange removed = *FindCells(record, rewind.range);
      old_pieces_.clear();
      new_pieces_.clear();
      AppendCells(&old_pieces_, view, 0, view.cell_count);
      AppendCells(&new_pieces_, view, 0, removed.begin);
      AppendCells(&new_pieces_, view, removed.end, view.cell_count);
      ListChange change{.pristine_cells = std::min(record.pristine_cells, removed.begin),
                        .unchanged_cells = removed.begin};
      if (!rewind.tokens.empty()) change.state_slot = rewind.last_slot;
      status = ReplaceList(found->index, change);
    }
    for (const std::uint32_t slot : rewind.slots) state_allocator_.LetGo(slot, tables_.states);
    rewind.slots = {layout::kNoSlot, layout::kNoSlot};
  }
  ReturnUnusedSlabs();
  return status;
}

}  // namespace kvd
