// Snapshots: published, named, immutable sequences. All uids share one space of names. If a caller
// may not see a snapshot, the verbs answer as if the snapshot did not exist, except that the caller
// cannot publish another snapshot under that name.
#include <chrono>
#include <cstring>
#include <string>

#include "base/clock.h"
#include "base/text.h"
#include "daemon/log.h"
#include "daemon/owner_of_uid.h"
#include "daemon/service.h"
#include "shm/payload_codec.h"

namespace kvd {
namespace {

std::unexpected<Error> FailNoSnapshot(const std::string& name) {
  return Fail(Code::kNotFound, "snapshot ", Quoted(name), ": no such snapshot");
}

bool IsVisible(const SnapshotInfo& snapshot, std::uint32_t uid) {
  return snapshot.is_public || UidOf(snapshot.owner) == uid;
}

}  // namespace

Result<wire::PublishReply> Service::Do(const Call<wire::PublishArgs>& call) {
  KVD_TRY(const std::string name, wire::ParseName(call.payload));
  const SequenceInfo& info = call.sequence;
  const bool replace = call.has(wire::kFlagForce);
  const Result<SnapshotInfo> known = memory_.snapshots().Find(name);
  if (known && (UidOf(known->owner) != call.caller.uid || !replace)) {
    const bool is_own = UidOf(known->owner) == call.caller.uid;
    return Fail(Code::kExists, "snapshot ", Quoted(name),
                (is_own ? ": exists; the force flag replaces it" : ": the name is taken"));
  }
  KVD_TRY(const SequenceHandle published,
          memory_.snapshots().Publish(info.handle, OwnerFor(call.caller), name,
                                      call.has(wire::kFlagPublic), replace, call.applied()));
  if (UidOf(info.owner.id) == call.caller.uid) samplers_.Inherit(info.handle, {&published, 1});
  Log(LogLevel::kInfo, "publish",
      Concat("name=", name, " cells=", info.cell_count,
             " session=", static_cast<std::uint64_t>(call.caller.session), " uid=", call.caller.uid,
             (call.has(wire::kFlagPublic) ? " public=1" : " public=0")));
  return wire::PublishReply{.sequence = published, .cells = info.cell_count};
}

Result<wire::NoReply> Service::Do(const Call<wire::UnpublishArgs>& call) {
  KVD_TRY(const std::string name, wire::ParseName(call.payload));
  const Result<SnapshotInfo> snapshot = memory_.snapshots().Find(name);
  if (!snapshot || !IsVisible(*snapshot, call.caller.uid)) return FailNoSnapshot(name);
  if (UidOf(snapshot->owner) != call.caller.uid) {
    return Fail(Code::kPermission, "snapshot ", Quoted(name), ": belongs to uid ",
                UidOf(snapshot->owner));
  }
  KVD_CHECK_OK(memory_.snapshots().Unpublish(name, call.applied()));
  Log(LogLevel::kInfo, "unpublish",
      Concat("name=", name, " session=", static_cast<std::uint64_t>(call.caller.session)));
  return wire::NoReply{};
}

Result<wire::ForkedReply> Service::Do(const Call<wire::AttachArgs>& call) {
  KVD_TRY(const std::string name, wire::ParseName(call.payload));
  const Result<SnapshotInfo> snapshot = memory_.snapshots().Find(name);
  if (!snapshot || !IsVisible(*snapshot, call.caller.uid)) return FailNoSnapshot(name);
  KVD_TRY(const SequenceInfo info, memory_.sequences().Query(snapshot->sequence));
  SequenceHandle forked = SequenceHandle::kNone;
  const auto before = std::chrono::steady_clock::now();
  KVD_CHECK_OK(memory_.sequences().Fork(snapshot->sequence, OwnerFor(call.caller),
                                        std::span(&forked, 1), std::nullopt, call.applied()));
  const auto after = std::chrono::steady_clock::now();
  if (UidOf(info.owner.id) == call.caller.uid) samplers_.Inherit(info.handle, {&forked, 1});
  const auto spent = std::chrono::duration_cast<std::chrono::nanoseconds>(after - before);
  return wire::ForkedReply{.sequence = forked,
                           .nanoseconds = static_cast<std::uint64_t>(spent.count()),
                           .cells = info.cell_count};
}

Result<wire::ListReply<wire::SnapshotEntry>> Service::Do(const Call<wire::SnapshotsArgs>& call) {
  const std::uint64_t now_ms = NowUnixMs();
  wire::ListReply<wire::SnapshotEntry> reply;
  for (const SnapshotInfo& snapshot : memory_.snapshots().List()) {
    if (!IsVisible(snapshot, call.caller.uid)) continue;
    const Result<SequenceInfo> info = memory_.sequences().Query(snapshot.sequence);
    wire::SnapshotEntry entry{};
    std::memcpy(entry.name, snapshot.name.data(),
                std::min(snapshot.name.size(), sizeof entry.name - 1));
    entry.sequence = static_cast<std::uint64_t>(snapshot.sequence);
    entry.owner_uid = UidOf(snapshot.owner);
    entry.is_public = snapshot.is_public ? 1 : 0;
    entry.cell_count = info ? info->cell_count : 0;
    entry.age_ms = now_ms > snapshot.published_unix_ms ? now_ms - snapshot.published_unix_ms : 0;
    reply.entries.push_back(entry);
  }
  return reply;
}

}  // namespace kvd
