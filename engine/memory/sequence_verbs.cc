// Verbs on whole sequences. A fork is: a free record, a copy of the extents, one commit, one pass
// over the block counts.
#include <algorithm>
#include <string>

#include "engine/memory/record_functions.h"
#include "engine/memory/unified_memory.h"
#include "shm/check.h"

namespace kvd {

Result<SequenceHandle> UnifiedMemory::Create(const SequenceOwner& owner) {
  const std::scoped_lock lock(mutex_);
  const layout::SequenceRecord nothing = {};
  KVD_CHECK_OK(PrepareForks(nothing, owner, layout::kSequenceLive, 0, 1));
  log_.Begin();
  PutRecord(forks_[0].index, forks_[0].record);
  if (Status status = log_.Commit(); !status) {
    UndoForks();
    return std::unexpected(std::move(status).error());
  }
  return AdoptForks({});
}

Status UnifiedMemory::Fork(SequenceHandle source, const SequenceOwner& owner,
                           std::span<SequenceHandle> handles,
                           std::optional<std::uint32_t> cell_count) {
  const std::scoped_lock lock(mutex_);
  if (handles.empty() || handles.size() > layout::kForksMax) {
    return Fail(Code::kInvalidArgument, "forks: " + std::to_string(handles.size()) +
                                            ", must be 1 to " + std::to_string(layout::kForksMax));
  }
  KVD_TRY(const Found found, Find(source));
  const std::uint32_t wanted = cell_count.value_or(found.record->cell_count);
  if (wanted > found.record->cell_count) {
    return Fail(Code::kInvalidArgument, "cell_count: " + std::to_string(wanted) + ", " +
                                            HandleText(source) + " has " +
                                            std::to_string(found.record->cell_count));
  }
  KVD_CHECK_OK(PrepareForks(*found.record, owner, layout::kSequenceLive, wanted, handles.size()));
  log_.Begin();
  for (const PreparedFork& fork : forks_) PutRecord(fork.index, fork.record);
  if (Status status = log_.Commit(); !status) {
    UndoForks();
    return status;
  }
  AdoptForks(handles);
  return {};
}

Status UnifiedMemory::PrepareForks(const layout::SequenceRecord& source, const SequenceOwner& owner,
                                   std::uint32_t flags, std::uint32_t cell_count,
                                   std::size_t count) {
  if (tables_.sequences.free_count() < count) {
    return Fail(Code::kNoSpace, "sequences: " + std::to_string(count) + " needed, " +
                                    std::to_string(tables_.sequences.free_count()) + " free of " +
                                    std::to_string(tables_.sequences.capacity()));
  }
  layout::SequenceRecord record = {};
  record.flags = flags;
  record.owner_uid = owner.uid;
  record.owner_session = static_cast<std::uint64_t>(owner.session);
  record.namespace_salt = owner.namespace_salt;
  record.created_unix_ms = NowUnixMs();
  record.edit_number = 1;
  record.cell_count = cell_count;
  record.state_slot = layout::kNoSlot;
  record.logits_slot = layout::kNoSlot;
  record.cross_slot = layout::kNoSlot;
  for (layout::ListRoot& root : record.extents) root = kEmptyList;
  record.checkpoints = kEmptyList;
  record.sampler = kEmptyList;
  std::uint32_t entry_count = 0;
  if (cell_count > 0) {
    const CellList cells = CellsOf(source);
    entry_count = static_cast<std::uint32_t>(FindExtent(cells.view, cell_count - 1)) + 1;
    record.next_pos = static_cast<std::int32_t>(cells.PositionAt(cell_count - 1)) + 1;
  }
  SetPristine(&record, source.pristine_cells);
  checkpoints_.clear();
  if (has_state() && cell_count > 0) {
    KVD_CHECK_OK(PlanFork(source, cell_count, &record));
    CollectCheckpoints(source, cell_count, record.state_slot);
  }

  forks_.clear();
  for (std::size_t fork = 0; fork < count; ++fork) {
    Result<layout::ListRoot> root = CopyList(source.extents[0], entry_count);
    if (!root) {
      UndoForks();
      return std::unexpected(std::move(root).error());
    }
    Result<layout::ListRoot> checkpoints = WriteCheckpoints(checkpoints_);
    if (!checkpoints) {
      FreeList(*root);
      UndoForks();
      return std::unexpected(std::move(checkpoints).error());
    }
    const std::uint32_t index = *tables_.sequences.TakeLowest();
    record.extents[0] = *root;
    record.checkpoints = *checkpoints;
    record.generation = meta_.sequences()[index].generation;
    forks_.push_back({index, record});
  }
  return {};
}

void UnifiedMemory::UndoForks() {
  for (const PreparedFork& fork : forks_) {
    FreeList(fork.record.extents[0]);
    FreeList(fork.record.checkpoints);
    tables_.sequences.Give(fork.index);
  }
  forks_.clear();
}

SequenceHandle UnifiedMemory::AdoptForks(std::span<SequenceHandle> handles) {
  KVD_ASSERT(!forks_.empty() && (handles.empty() || handles.size() == forks_.size()));
  const layout::SequenceRecord& first = forks_[0].record;
  // Forks are held, whatever their source is: retained is not inherited.
  tables_.blocks.AddList(ViewOf(first), Holder::kHeld, static_cast<std::uint32_t>(forks_.size()));
  AddStateReferences(first, Holder::kHeld, static_cast<std::uint32_t>(forks_.size()));
  for (std::size_t fork = 0; fork < forks_.size(); ++fork) {
    ++content_numbers_[forks_[fork].index];
    holders_[forks_[fork].index] = Holder::kHeld;
    if (!handles.empty())
      handles[fork] = MakeHandle(forks_[fork].index, forks_[fork].record.generation);
  }
  return MakeHandle(forks_[0].index, first.generation);
}

Status UnifiedMemory::Drop(SequenceHandle handle) { return DropAll({&handle, 1}); }

Status UnifiedMemory::DropAll(std::span<const SequenceHandle> handles) {
  {
    const std::scoped_lock lock(mutex_);
    BeginMarks();
    dropped_.clear();
    for (const SequenceHandle handle : handles) {
      KVD_TRY(const Found found, FindMutable(handle));
      if (!Mark(&sequence_marks_, found.index)) {
        return Fail(Code::kInvalidArgument, HandleText(handle) + ": given twice");
      }
      dropped_.push_back(found.index);
    }
    KVD_CHECK_OK(DropCollected());
  }
  ReturnUnusedSlabs();
  return {};
}

Status UnifiedMemory::Keep(SequenceHandle kept, SessionId session) {
  {
    const std::scoped_lock lock(mutex_);
    KVD_TRY(const Found found, Find(kept));
    if (found.record->owner_session != static_cast<std::uint64_t>(session)) {
      return Fail(Code::kPermission, HandleText(kept) + ": belongs to another session");
    }
    dropped_.clear();
    for (std::uint32_t index = 0; index < meta_.geometry().sequence_capacity; ++index) {
      const layout::SequenceRecord& record = meta_.sequences()[index];
      if ((record.flags & layout::kSequenceLive) != 0 && index != found.index &&
          (record.flags & layout::kSequencePublished) == 0 &&
          record.owner_session == static_cast<std::uint64_t>(session)) {
        dropped_.push_back(index);
      }
    }
    KVD_CHECK_OK(DropCollected());
  }
  ReturnUnusedSlabs();
  return {};
}

Status UnifiedMemory::DropCollected() {
  if (dropped_.empty()) return {};
  log_.Begin();
  for (const std::uint32_t index : dropped_) PutFreed(index);
  KVD_CHECK_OK(log_.Commit());
  for (const std::uint32_t index : dropped_) ForgetSequence(index);
  SettleFreedBlocks();
  return {};
}

void UnifiedMemory::ForgetSequence(std::uint32_t index) {
  // The commit changed the record's first 8 bytes: what the list was can still be read.
  const layout::SequenceRecord& record = meta_.sequences()[index];
  tables_.blocks.DropList(ViewOf(record), holders_[index], &freed_blocks_);
  DropStateReferences(record, holders_[index]);
  FreeList(record.extents[0]);
  FreeList(record.checkpoints);
  tables_.sequences.Give(index);
  ++content_numbers_[index];
}

Status UnifiedMemory::SetOwner(SequenceHandle handle, const SequenceOwner& owner,
                               std::uint32_t flags_set, std::uint32_t flags_clear) {
  constexpr std::uint32_t kChangeable = layout::kSequenceRetained | layout::kSequencePinned;
  if (((flags_set | flags_clear) & ~kChangeable) != 0 || (flags_set & flags_clear) != 0) {
    return Fail(Code::kInvalidArgument, "flags: set " + std::to_string(flags_set) + ", clear " +
                                            std::to_string(flags_clear) +
                                            ", only retained and pinned can be, one way each");
  }
  const std::scoped_lock lock(mutex_);
  KVD_TRY(const Found found, FindMutable(handle));
  layout::SequenceRecord record = *found.record;
  record.owner_uid = owner.uid;
  record.owner_session = static_cast<std::uint64_t>(owner.session);
  record.namespace_salt = owner.namespace_salt;
  record.flags = (record.flags | flags_set) & ~flags_clear;
  ++record.edit_number;
  log_.Begin();
  PutRecord(found.index, record);
  KVD_CHECK_OK(log_.Commit());

  const Holder holder = HolderOf(record.flags);
  if (holder != holders_[found.index]) {
    const ExtentView view = ViewOf(record);
    tables_.blocks.AddList(view, holder);
    tables_.blocks.DropList(view, holders_[found.index], &freed_blocks_);
    AddStateReferences(record, holder, 1);
    DropStateReferences(record, holders_[found.index]);
    KVD_ASSERT(freed_blocks_.empty());
    holders_[found.index] = holder;
  }
  return {};
}

}  // namespace kvd
