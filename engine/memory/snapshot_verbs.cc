// A snapshot is a published sequence and a record that names it; both appear and go in one commit.
#include <cstring>
#include <string>

#include "engine/memory/record_functions.h"
#include "engine/memory/unified_memory.h"

namespace kvd {
namespace {

SnapshotInfo DescribeSnapshot(const layout::SnapshotRecord& record, std::string name) {
  return {std::move(name), static_cast<SequenceHandle>(record.sequence), record.owner_uid,
          record.is_public != 0, record.published_unix_ms};
}

std::unexpected<Error> NoSnapshot(std::string_view name) {
  return Fail(Code::kNotFound, "snapshot " + std::string(name) + ": no such name");
}

}  // namespace

Result<SequenceHandle> UnifiedMemory::Publish(SequenceHandle source, const SequenceOwner& owner,
                                              std::string_view name, bool is_public, bool replace,
                                              const AppliedRequest& applied) {
  if (name.empty() || name.size() > layout::kNameBytesMax || name.find('\0') != name.npos) {
    return Fail(Code::kInvalidArgument,
                "snapshot name: " + std::to_string(name.size()) + " bytes, must be 1 to " +
                    std::to_string(layout::kNameBytesMax) + ", none of them 0");
  }
  SequenceHandle handle = SequenceHandle::kNone;
  {
    const MutexLock lock(mutex_);
    const Applying applying(this, applied);
    KVD_TRY(const Found found, Find(source));
    const auto existing = tables_.snapshots_by_name.find(name);
    const bool replaces = existing != tables_.snapshots_by_name.end();
    if (replaces && !replace) {
      return Fail(Code::kExists, "snapshot " + std::string(name) + ": exists");
    }
    if (!replaces && tables_.snapshots.free_count() == 0) {
      return Fail(Code::kNoSpace,
                  "snapshots: all " + std::to_string(tables_.snapshots.capacity()) + " are taken");
    }
    MakeRoom({.sequences = 1}, {found.index, layout::kNoSlot});
    MakeRoomForLists({found.index, layout::kNoSlot});
    KVD_TRY(const NewState state, StateAt(*found.record, found.record->cell_count));
    fork_source_ = found.index;
    KVD_CHECK_OK(PrepareForks(*found.record, owner,
                              layout::kSequenceLive | layout::kSequencePublished,
                              found.record->cell_count, state, 1));
    const PreparedFork& fork = forks_[0];
    layout::SnapshotRecord record = {};
    std::memcpy(record.name, name.data(), name.size());
    record.sequence = static_cast<std::uint64_t>(MakeHandle(fork.index, fork.record.generation));
    record.published_unix_ms = fork.record.created_unix_ms;
    record.owner_uid = owner.uid;
    record.is_public = is_public ? 1 : 0;

    const std::uint32_t snapshot = replaces ? existing->second : *tables_.snapshots.TakeLowest();
    std::uint32_t replaced = layout::kNoSlot;
    log_.Begin();
    PutRecord(fork.index, fork.record);
    if (replaces) {
      replaced = IndexOf(static_cast<SequenceHandle>(meta_.snapshots()[snapshot].sequence));
      PutFreed(replaced);
    }
    log_.Put(meta_.snapshot_offset(snapshot), std::as_bytes(std::span(&record, 1)));
    PutApplied(static_cast<SequenceHandle>(record.sequence), fork.record.cell_count, 1);
    if (Status status = log_.Commit(); !status) {
      UndoForks();
      if (!replaces) tables_.snapshots.Give(snapshot);
      return std::unexpected(std::move(status).error());
    }
    handle = AdoptForks({});
    IndexPublished(fork.index, is_public);
    if (replaces) {
      ForgetSequence(replaced);
      SettleFreed();
    } else {
      tables_.snapshots_by_name.emplace(name, snapshot);
    }
  }
  ReturnUnusedSlabs();
  return handle;
}

Status UnifiedMemory::Unpublish(std::string_view name, const AppliedRequest& applied) {
  {
    const MutexLock lock(mutex_);
    const Applying applying(this, applied);
    const auto existing = tables_.snapshots_by_name.find(name);
    if (existing == tables_.snapshots_by_name.end()) return NoSnapshot(name);
    const std::uint32_t snapshot = existing->second;
    const std::uint32_t sequence =
        IndexOf(static_cast<SequenceHandle>(meta_.snapshots()[snapshot].sequence));
    const layout::SnapshotRecord nothing = {};
    log_.Begin();
    PutFreed(sequence);
    log_.Put(meta_.snapshot_offset(snapshot), std::as_bytes(std::span(&nothing, 1)));
    PutApplied(SequenceHandle::kNone, 0);
    KVD_CHECK_OK(log_.Commit());
    ForgetSequence(sequence);
    SettleFreed();
    tables_.snapshots.Give(snapshot);
    tables_.snapshots_by_name.erase(existing);
  }
  ReturnUnusedSlabs();
  return {};
}

Result<SnapshotInfo> UnifiedMemory::FindSnapshot(std::string_view name) const {
  const MutexLock lock(mutex_);
  const auto existing = tables_.snapshots_by_name.find(name);
  if (existing == tables_.snapshots_by_name.end()) return NoSnapshot(name);
  return DescribeSnapshot(meta_.snapshots()[existing->second], existing->first);
}

std::vector<SnapshotInfo> UnifiedMemory::Snapshots() const {
  std::vector<SnapshotInfo> infos;
  std::string last;  // no name is empty
  std::size_t count = kListedAtOnce;
  while (count == kListedAtOnce) {
    if (infos.capacity() - infos.size() < kListedAtOnce)
      infos.reserve(2 * infos.size() + kListedAtOnce);
    const MutexLock lock(mutex_);
    count = 0;
    for (auto at = tables_.snapshots_by_name.upper_bound(last);
         at != tables_.snapshots_by_name.end() && count < kListedAtOnce; ++at, ++count) {
      infos.push_back(DescribeSnapshot(meta_.snapshots()[at->second], at->first));
    }
    NoteLooks(count);
    if (count > 0) last = infos.back().name;
  }
  return infos;
}

}  // namespace kvd
