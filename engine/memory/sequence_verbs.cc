// Verbs on whole sequences. A fork is: a free record, a copy of the extents, one commit, one pass
// over the block counts.
#include <algorithm>
#include <string>

#include "engine/memory/record_functions.h"
#include "engine/memory/unified_memory.h"
#include "shm/check.h"

namespace kvd {

Result<SequenceHandle> UnifiedMemory::Create(const SequenceOwner& owner,
                                             const AppliedRequest& applied) {
  const MutexLock lock(mutex_);
  const Applying applying(this, applied);
  MakeRoom({.sequences = 1});
  layout::SequenceRecord nothing = {};
  for (layout::ListRoot& root : nothing.extents) root = kEmptyList;
  KVD_CHECK_OK(PrepareForks(nothing, owner, layout::kSequenceLive, 0, NewState{}, 1));
  log_.Begin();
  PutRecord(forks_[0].index, forks_[0].record);
  PutApplied(MakeHandle(forks_[0].index, forks_[0].record.generation), 0, 1);
  if (Status status = log_.Commit(); !status) {
    UndoForks();
    return std::unexpected(std::move(status).error());
  }
  return AdoptForks({});
}

Status UnifiedMemory::Fork(SequenceHandle source, const SequenceOwner& owner,
                           std::span<SequenceHandle> handles,
                           std::optional<std::uint32_t> cell_count, const AppliedRequest& applied) {
  const MutexLock lock(mutex_);
  const Applying applying(this, applied);
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
  NoteUse(found.index);
  MakeRoom({.sequences = static_cast<std::uint32_t>(handles.size())},
           {found.index, layout::kNoSlot});
  MakeRoomForLists({found.index, layout::kNoSlot});
  KVD_TRY(const NewState state, StateAt(*found.record, wanted));
  fork_source_ = found.index;
  KVD_CHECK_OK(
      PrepareForks(*found.record, owner, layout::kSequenceLive, wanted, state, handles.size()));
  log_.Begin();
  for (const PreparedFork& fork : forks_) PutRecord(fork.index, fork.record);
  PutApplied(MakeHandle(forks_[0].index, forks_[0].record.generation), wanted, forks_.size());
  if (Status status = log_.Commit(); !status) {
    UndoForks();
    return status;
  }
  AdoptForks(handles);
  return {};
}

Status UnifiedMemory::PrepareForks(const layout::SequenceRecord& source, const SequenceOwner& owner,
                                   std::uint32_t flags, std::uint32_t cell_count,
                                   const NewState& state, std::size_t count) {
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
  record.created_by = applying_ != nullptr ? static_cast<std::uint64_t>(applying_->request) : 0;
  record.edit_number = 1;
  record.cell_count = cell_count;
  record.cross_cells = source.cross_cells;
  record.state_slot = state.state_slot;
  record.logits_slot = state.logits_slot;
  if (owner.uid == source.owner_uid) {
    record.sampler = source.sampler;
    record.sampler.cell_count = std::min(source.sampler.cell_count, cell_count);
  }
  if (cell_count > 0) {
    record.next_pos = static_cast<std::int32_t>(CellsOf(source).PositionAt(cell_count - 1)) + 1;
  }
  SetPristine(&record, source.pristine_cells);
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    if (is_cross(group)) continue;
    const std::uint32_t first = std::min(source.first_cell[group], cell_count);
    record.first_cell[group] = first;
    if (first > 0) {
      KVD_CHECK_OK(CheckWindow(group, CellsOf(source).PositionAt(first - 1), record.next_pos));
    }
  }

  checkpoints_.clear();
  if (state.state_slot != layout::kNoSlot) CollectCheckpoints(source, cell_count, state.state_slot);

  forks_.clear();
  for (std::size_t fork = 0; fork < count; ++fork) {
    if (Status status = WriteForkLists(source, &record); !status) {
      UndoForks();
      return status;
    }
    const std::uint32_t index = *tables_.sequences.TakeLowest();
    record.generation = meta_.sequences()[index].generation;
    forks_.push_back({index, record});
  }
  return {};
}

Status UnifiedMemory::WriteForkLists(const layout::SequenceRecord& source,
                                     layout::SequenceRecord* record) {
  for (layout::ListRoot& root : record->extents) root = kEmptyList;
  record->checkpoints = kEmptyList;
  const auto write = [&]() -> Status {
    mutex_.AssertHeld();
    for (std::uint32_t group = 0; group < group_count(); ++group) {
      const ExtentView view = ViewOf(source, group);
      const std::uint32_t cell_count = CellCountOf(*record, meta_.geometry(), group);
      if (cell_count <= view.first_cell()) continue;
      const std::size_t entry_count = FindExtent(view, cell_count - 1) + 1;
      KVD_TRY(record->extents[group],
              CopyList(source.extents[group], static_cast<std::uint32_t>(entry_count)));
    }
    KVD_TRY(record->checkpoints, WriteCheckpoints(checkpoints_));
    return {};
  };
  Status status = write();
  if (!status) FreeLists(*record);
  return status;
}

void UnifiedMemory::FreeLists(const layout::SequenceRecord& record) {
  for (std::uint32_t group = 0; group < group_count(); ++group) FreeList(record.extents[group]);
  FreeList(record.checkpoints);
}

void UnifiedMemory::UndoForks() {
  for (const PreparedFork& fork : forks_) {
    FreeLists(fork.record);
    tables_.sequences.Give(fork.index);
  }
  forks_.clear();
  fork_source_ = layout::kNoSlot;
}

SequenceHandle UnifiedMemory::AdoptForks(std::span<SequenceHandle> handles) {
  KVD_ASSERT(!forks_.empty() && (handles.empty() || handles.size() == forks_.size()));
  const layout::SequenceRecord& first = forks_[0].record;
  // Forks are held, whatever their source is: retained is not inherited.
  tables_.AddReferences(meta_, first, Holder::kHeld, static_cast<std::uint32_t>(forks_.size()));
  for (std::size_t fork = 0; fork < forks_.size(); ++fork) {
    ++content_numbers_[forks_[fork].index];
    holders_[forks_[fork].index] = Holder::kHeld;
    IndexFork(forks_[fork].index, fork == 0 ? fork_source_ : forks_[0].index);
    if (!handles.empty())
      handles[fork] = MakeHandle(forks_[fork].index, forks_[fork].record.generation);
  }
  fork_source_ = layout::kNoSlot;
  return MakeHandle(forks_[0].index, first.generation);
}

Status UnifiedMemory::Drop(SequenceHandle handle, const AppliedRequest& applied) {
  {
    const MutexLock lock(mutex_);
    const Applying applying(this, applied);
    KVD_TRY(const Found found, FindMutable(handle));
    dropped_.assign(1, found.index);
    KVD_CHECK_OK(DropCollected());
  }
  ReturnUnusedSlabs();
  return {};
}

Status UnifiedMemory::DropAll(std::span<const SequenceHandle> handles,
                              const AppliedRequest& applied) {
  {
    const MutexLock lock(mutex_);
    const Applying applying(this, applied);
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

Status UnifiedMemory::Keep(SequenceHandle kept, SessionId session, const AppliedRequest& applied) {
  {
    const MutexLock lock(mutex_);
    const Applying applying(this, applied);
    KVD_TRY(const Found found, Find(kept));
    if (found.record->owner_session != static_cast<std::uint64_t>(session)) {
      return Fail(Code::kPermission, HandleText(kept) + ": belongs to another session");
    }
    dropped_.clear();
    OwnerTable::Cursor cursor;
    std::array<std::uint32_t, kListedAtOnce> indices;
    for (std::size_t count = indices.size(); count == indices.size();) {
      count = tables_.owners.ListSession(static_cast<std::uint64_t>(session), &cursor, indices);
      NoteLooks(count);
      for (const std::uint32_t index : std::span(indices).first(count)) {
        const bool is_published =
            (meta_.sequences()[index].flags & layout::kSequencePublished) != 0;
        if (index != found.index && !is_published) dropped_.push_back(index);
      }
    }
    KVD_CHECK_OK(DropCollected());
  }
  ReturnUnusedSlabs();
  return {};
}

Status UnifiedMemory::DropCollected() {
  if (dropped_.empty()) return CommitNothing(SequenceHandle::kNone);
  log_.Begin();
  for (const std::uint32_t index : dropped_) PutFreed(index);
  PutApplied(SequenceHandle::kNone, static_cast<std::uint32_t>(dropped_.size()));
  KVD_CHECK_OK(log_.Commit());
  for (const std::uint32_t index : dropped_) ForgetSequence(index);
  SettleFreed();
  return {};
}

void UnifiedMemory::ForgetSequence(std::uint32_t index) {
  // The commit changed the record's first 8 bytes: what the lists were can still be read.
  const layout::SequenceRecord& record = meta_.sequences()[index];
  tables_.DropReferences(meta_, record, holders_[index], &freed_);
  FreeLists(record);
  SyncPrefix(index);
  NoteRetained(index);
  tables_.sequences.Give(index);
  ++content_numbers_[index];
}

Status UnifiedMemory::SetOwner(SequenceHandle handle, const SequenceOwner& owner,
                               std::uint32_t flags_set, std::uint32_t flags_clear,
                               const AppliedRequest& applied) {
  constexpr std::uint32_t kChangeable = layout::kSequenceRetained | layout::kSequencePinned;
  if (((flags_set | flags_clear) & ~kChangeable) != 0 || (flags_set & flags_clear) != 0) {
    return Fail(Code::kInvalidArgument, "flags: set " + std::to_string(flags_set) + ", clear " +
                                            std::to_string(flags_clear) +
                                            ", only retained and pinned can be, one way each");
  }
  const MutexLock lock(mutex_);
  const Applying applying(this, applied);
  KVD_TRY(const Found found, FindMutable(handle));
  layout::SequenceRecord record = *found.record;
  if (record.owner_session != static_cast<std::uint64_t>(owner.session)) {
    record.created_by = record.request = record.request_session = 0;
    record.request_first_cell = 0;
  }
  record.owner_uid = owner.uid;
  record.owner_session = static_cast<std::uint64_t>(owner.session);
  record.namespace_salt = owner.namespace_salt;
  record.flags = (record.flags | flags_set) & ~flags_clear;
  ++record.edit_number;
  return PutOwner(found.index, record);
}

Status UnifiedMemory::SetSampler(SequenceHandle handle, const layout::SamplerRecord& sampler) {
  const MutexLock lock(mutex_);
  KVD_TRY(const Found found, FindMutable(handle));
  layout::SequenceRecord record = *found.record;
  record.sampler = sampler;
  if (sampler.flags != 0) record.sampler.cell_count = record.cell_count;
  ++record.edit_number;
  return PutOwner(found.index, record);
}

Status UnifiedMemory::PutOwner(std::uint32_t index, const layout::SequenceRecord& record) {
  log_.Begin();
  PutRecord(index, record);
  PutApplied(MakeHandle(index, record.generation), 0);
  KVD_CHECK_OK(log_.Commit());
  SyncPrefix(index);
  FollowFlags(index);
  SettleFreed();
  return {};
}

void UnifiedMemory::FollowFlags(std::uint32_t index) {
  NoteRetained(index);
  const layout::SequenceRecord& record = meta_.sequences()[index];
  const Holder holder = HolderOf(record.flags);
  if (holder == holders_[index]) return;
  tables_.AddReferences(meta_, record, holder);
  tables_.DropReferences(meta_, record, holders_[index], &freed_);
  holders_[index] = holder;
}

}  // namespace kvd
