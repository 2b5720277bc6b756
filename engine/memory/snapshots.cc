#include "engine/memory/snapshots.h"

#include <cstring>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/name.h"
#include "engine/memory/eviction.h"
#include "engine/memory/forks.h"
#include "engine/memory/record_functions.h"
#include "engine/memory/sequences.h"
#include "engine/memory/transaction.h"

namespace kvd {
namespace {

SnapshotInfo DescribeSnapshot(const layout::SnapshotRecord& record, std::string name) {
  return {std::move(name), static_cast<SequenceHandle>(record.sequence), OwnerId{record.owner},
          record.is_public != 0, record.published_unix_ms};
}

std::unexpected<Error> NoSnapshot(std::string_view name) {
  return Fail(Code::kNotFound, "snapshot ", name, ": no such name");
}

Status CheckName(std::string_view name) {
  if (!name.empty() && name.size() <= kNameMax && name.find('\0') == name.npos) {
    return {};
  }
  return Fail(Code::kInvalidArgument, "snapshot name: ", name.size(), " bytes, must be 1 to ",
              kNameMax, ", none of them 0");
}

}  // namespace

Result<SequenceHandle> Snapshots::Publish(SequenceHandle source, const SequenceOwner& owner,
                                          std::string_view name, bool is_public, bool replace,
                                          const RequestTag& tag) {
  KVD_CHECK_OK(CheckName(name));
  SequenceHandle handle = SequenceHandle::kNone;
  {
    const MutexLock lock(store_.mutex);
    KVD_TRY(const FoundSequence found, store_.FindWhole(source));
    const auto existing = store_.tables.snapshots_by_name.find(SnapshotKey{name, owner.id});
    const bool replaces = existing != store_.tables.snapshots_by_name.end();
    if (replaces && !replace) {
      return Fail(Code::kExists, "snapshot ", name, ": already exists");
    }
    if (is_public) {
      const std::optional<std::uint32_t> taken = FindPublic(name);
      if (taken && OwnerId{store_.meta.snapshots()[*taken].owner} != owner.id) {
        return Fail(Code::kExists, "snapshot ", name, ": the name of another public snapshot");
      }
    }
    if (!replaces && store_.tables.snapshots.free_count() == 0) {
      return Fail(Code::kNoSpace, "snapshots: all ", store_.tables.snapshots.capacity(),
                  " are in use");
    }
    ForkPlan plan;
    KVD_CHECK_OK(PlanForks(store_,
                           {.source = found.index,
                            .owner = owner,
                            .flags = layout::kSequenceLive | layout::kSequencePublished,
                            .cell_count = found.record->cell_count},
                           &plan));
    MakeRoom(store_, {.sequences = 1}, {found.index, layout::kNoSlot});
    MakeRoomForLists(store_, {found.index, layout::kNoSlot});

    Transaction transaction(store_, tag);
    KVD_CHECK_OK(PutForks(store_, transaction, plan, {&handle, 1}));
    const std::uint32_t snapshot = replaces ? existing->second : *transaction.TakeSnapshot();
    if (replaces) {
      transaction.Free(
          IndexOf(static_cast<SequenceHandle>(store_.meta.snapshots()[snapshot].sequence)));
    }
    layout::SnapshotRecord record = {};
    std::memcpy(record.name, name.data(), name.size());
    record.sequence = static_cast<std::uint64_t>(handle);
    record.published_unix_ms = NowUnixMs();
    record.owner = static_cast<std::uint64_t>(owner.id);
    record.is_public = is_public ? 1 : 0;
    transaction.PutSnapshot(snapshot, record);
    transaction.Answer(handle, plan.record.cell_count, 1);
    KVD_CHECK_OK(transaction.Commit());
  }
  store_.ReturnUnusedSlabs();
  return handle;
}

Status Snapshots::Unpublish(std::string_view name, OwnerId owner, const RequestTag& tag) {
  {
    const MutexLock lock(store_.mutex);
    const auto existing = store_.tables.snapshots_by_name.find(SnapshotKey{name, owner});
    if (existing == store_.tables.snapshots_by_name.end()) return NoSnapshot(name);
    const std::uint32_t snapshot = existing->second;
    Transaction transaction(store_, tag);
    transaction.Free(
        IndexOf(static_cast<SequenceHandle>(store_.meta.snapshots()[snapshot].sequence)));
    transaction.PutSnapshot(snapshot, {});
    transaction.Answer(SequenceHandle::kNone, 0);
    KVD_CHECK_OK(transaction.Commit());
  }
  store_.ReturnUnusedSlabs();
  return {};
}

Result<SnapshotInfo> Snapshots::Find(std::string_view name, OwnerId viewer) const {
  const MutexLock lock(store_.mutex);
  const auto own = store_.tables.snapshots_by_name.find(SnapshotKey{name, viewer});
  const std::optional<std::uint32_t> found =
      own != store_.tables.snapshots_by_name.end() ? own->second : FindPublic(name);
  if (!found) return NoSnapshot(name);
  return DescribeSnapshot(store_.meta.snapshots()[*found], std::string(name));
}

std::optional<std::uint32_t> Snapshots::FindPublic(std::string_view name) const {
  const auto found = store_.tables.public_snapshots.find(name);
  if (found == store_.tables.public_snapshots.end()) return std::nullopt;
  return found->second;
}

std::vector<SnapshotInfo> Snapshots::List() const {
  constexpr std::size_t kListedAtOnce = Sequences::kListedAtOnce;
  std::vector<SnapshotInfo> infos;
  // The last listed name and owner; names are never empty, so "" precedes all names.
  std::pair<std::string, OwnerId> last;
  std::size_t count = kListedAtOnce;
  while (count == kListedAtOnce) {
    if (infos.capacity() - infos.size() < kListedAtOnce)
      infos.reserve(2 * infos.size() + kListedAtOnce);
    const MutexLock lock(store_.mutex);
    const auto& names = store_.tables.snapshots_by_name;
    count = 0;
    for (auto at = names.upper_bound(SnapshotKey{last.first, last.second});
         at != names.end() && count < kListedAtOnce; ++at, ++count) {
      infos.push_back(DescribeSnapshot(store_.meta.snapshots()[at->second], at->first.first));
    }
    store_.NoteLooks(count);
    if (count > 0) last = {infos.back().name, infos.back().owner};
  }
  return infos;
}

}  // namespace kvd
