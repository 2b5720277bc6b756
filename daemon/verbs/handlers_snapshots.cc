// Snapshots: published, named, immutable sequences. Each owner has a space of names for its own
// snapshots; the names of public snapshots also form one space for all owners. A name means the
// caller's own snapshot, or else the public one. If a caller may not see a snapshot, the verbs
// answer as if the snapshot did not exist.
#include <chrono>
#include <cstring>
#include <string>

#include "base/clock.h"
#include "base/text.h"
#include "daemon/process/log.h"
#include "daemon/sessions/expiries.h"
#include "daemon/sessions/owners.h"
#include "daemon/verbs/service.h"
#include "shm/payload_codec.h"

namespace kvd {
namespace {

std::unexpected<Error> FailNoSnapshot(const std::string& name) {
  return Fail(Code::kNotFound, "snapshot ", Quoted(name), ": no such snapshot");
}

bool IsVisible(const SnapshotInfo& snapshot, OwnerId owner) {
  return snapshot.is_public || snapshot.owner == owner;
}

}  // namespace

Result<wire::PublishReply> Service::Do(const Call<wire::PublishArgs>& call) {
  KVD_TRY(const std::string name, wire::ParseName(call.payload));
  const SequenceInfo& info = call.sequence;
  const bool replace = call.has(wire::kFlagForce);
  const Result<SnapshotInfo> known = memory_.snapshots().Find(name, call.caller.owner);
  if (known && known->owner == call.caller.owner && !replace) {
    return Fail(Code::kExists, "snapshot ", Quoted(name), ": exists; the force flag replaces it");
  }
  SequenceOwner owner = OwnerFor(call.caller);
  owner.life = LifeOf(call, call.args.ttl_seconds);
  KVD_TRY(const SequenceHandle published,
          memory_.snapshots().Publish(info.handle, owner, name, call.has(wire::kFlagPublic),
                                      replace, call.applied()));
  NoteLife(owner.life);
  if (info.owner.id == call.caller.owner) samplers_.Inherit(info.handle, {&published, 1});
  Log(LogLevel::kInfo, "publish",
      Concat("name=", name, " cells=", info.cell_count, " session=",
             static_cast<std::uint64_t>(call.caller.session), " ", OwnerText(call.caller.owner),
             (call.has(wire::kFlagPublic) ? " public=1" : " public=0")));
  return wire::PublishReply{.sequence = published, .cells = info.cell_count};
}

Result<wire::NoReply> Service::Do(const Call<wire::UnpublishArgs>& call) {
  KVD_TRY(const std::string name, wire::ParseName(call.payload));
  const Result<SnapshotInfo> snapshot = memory_.snapshots().Find(name, call.caller.owner);
  if (!snapshot) return FailNoSnapshot(name);
  if (snapshot->owner != call.caller.owner) {
    return Fail(Code::kPermission, "snapshot ", Quoted(name), ": belongs to ",
                (IsTenant(snapshot->owner) ? "another tenant of uid " : "uid "),
                shares_.UidOf(snapshot->owner));
  }
  KVD_CHECK_OK(memory_.snapshots().Unpublish(name, call.caller.owner, call.applied()));
  Log(LogLevel::kInfo, "unpublish",
      Concat("name=", name, " session=", static_cast<std::uint64_t>(call.caller.session)));
  return wire::NoReply{};
}

Result<wire::ForkedReply> Service::Do(const Call<wire::AttachArgs>& call) {
  KVD_TRY(const std::string name, wire::ParseName(call.payload));
  const Result<SnapshotInfo> snapshot = memory_.snapshots().Find(name, call.caller.owner);
  if (!snapshot) return FailNoSnapshot(name);
  KVD_TRY(const SequenceInfo info, memory_.sequences().Query(snapshot->sequence));
  SequenceHandle forked = SequenceHandle::kNone;
  const auto before = std::chrono::steady_clock::now();
  KVD_CHECK_OK(memory_.sequences().Fork(snapshot->sequence, OwnerFor(call.caller),
                                        std::span(&forked, 1), std::nullopt, call.applied()));
  const auto after = std::chrono::steady_clock::now();
  if (info.owner.id == call.caller.owner) samplers_.Inherit(info.handle, {&forked, 1});
  const auto spent = std::chrono::duration_cast<std::chrono::nanoseconds>(after - before);
  return wire::ForkedReply{.sequence = forked,
                           .nanoseconds = static_cast<std::uint64_t>(spent.count()),
                           .cells = info.cell_count};
}

Result<wire::ListReply<wire::SnapshotEntry>> Service::Do(const Call<wire::SnapshotsArgs>& call) {
  const std::uint64_t now_ms = NowUnixMs();
  wire::ListReply<wire::SnapshotEntry> reply;
  for (const SnapshotInfo& snapshot : memory_.snapshots().List()) {
    if (!IsVisible(snapshot, call.caller.owner)) continue;
    const Result<SequenceInfo> info = memory_.sequences().Query(snapshot.sequence);
    wire::SnapshotEntry entry{};
    std::memcpy(entry.name, snapshot.name.data(),
                std::min(snapshot.name.size(), sizeof entry.name - 1));
    entry.sequence = static_cast<std::uint64_t>(snapshot.sequence);
    entry.owner_uid = shares_.UidOf(snapshot.owner);
    entry.is_public = snapshot.is_public ? 1 : 0;
    entry.is_own = snapshot.owner == call.caller.owner ? 1 : 0;
    entry.cell_count = info ? info->cell_count : 0;
    if (info) {
      entry.is_ephemeral = info->owner.life.is_ephemeral ? 1 : 0;
      entry.expires_in_seconds = SecondsLeft(info->owner.life.expires_unix_ms, now_ms);
    }
    entry.age_ms = now_ms > snapshot.published_unix_ms ? now_ms - snapshot.published_unix_ms : 0;
    reply.entries.push_back(entry);
  }
  return reply;
}

}  // namespace kvd
