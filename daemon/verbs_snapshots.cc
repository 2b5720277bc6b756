// Snapshots: published, named, immutable sequences. Names are one space for all uids; a name that a
// caller may not see is as if it were not there, but cannot be taken either.
#include <chrono>
#include <cstring>
#include <string>

#include "daemon/log.h"
#include "daemon/service.h"
#include "shm/payload_codec.h"

namespace kvd {
namespace {

std::unexpected<Error> FailNoSnapshot(const std::string& name) {
  return Fail(Code::kNotFound, "snapshot " + Quoted(name) + ": no such snapshot");
}

bool IsVisible(const SnapshotInfo& snapshot, std::uint32_t uid) {
  return snapshot.is_public || snapshot.owner_uid == uid;
}

}  // namespace

Result<Reply> Service::Publish(const Request& request) {
  KVD_TRY(const std::string name, wire::ParseName(request.payload));
  if (name.size() >= layout::kNameBytesMax) {
    return Fail(Code::kInvalidArgument,
                "name: " + std::to_string(name.size()) + " bytes, at most " +
                    std::to_string(layout::kNameBytesMax - 1) + " are stored");
  }
  KVD_TRY(const SequenceInfo info, FindReadable(request, "sequence", request.sequence()));
  const bool replace = request.has(wire::kFlagForce);
  const Result<SnapshotInfo> known = memory_.snapshots().Find(name);
  if (known && (known->owner_uid != request.caller.uid || !replace)) {
    const bool is_own = known->owner_uid == request.caller.uid;
    return Fail(Code::kExists,
                "snapshot " + Quoted(name) +
                    (is_own ? ": exists; the force flag replaces it" : ": the name is taken"));
  }
  KVD_TRY(const SequenceHandle published,
          memory_.snapshots().Publish(info.handle, OwnerFor(request.caller), name,
                                      request.has(wire::kFlagPublic), replace, request.applied()));
  if (info.owner.uid == request.caller.uid) samplers_.Inherit(info.handle, {&published, 1});
  Log(LogLevel::kInfo, "publish",
      "name=" + name + " cells=" + std::to_string(info.cell_count) +
          " session=" + std::to_string(static_cast<std::uint64_t>(request.caller.session)) +
          " uid=" + std::to_string(request.caller.uid) +
          (request.has(wire::kFlagPublic) ? " public=1" : " public=0"));
  Reply reply;
  reply.sequence = published;
  reply.value1 = info.cell_count;
  return reply;
}

Result<Reply> Service::Unpublish(const Request& request) {
  KVD_TRY(const std::string name, wire::ParseName(request.payload));
  const Result<SnapshotInfo> snapshot = memory_.snapshots().Find(name);
  if (!snapshot || !IsVisible(*snapshot, request.caller.uid)) return FailNoSnapshot(name);
  if (snapshot->owner_uid != request.caller.uid) {
    return Fail(Code::kPermission, "snapshot " + Quoted(name) + ": belongs to uid " +
                                       std::to_string(snapshot->owner_uid));
  }
  KVD_CHECK_OK(memory_.snapshots().Unpublish(name, request.applied()));
  Log(LogLevel::kInfo, "unpublish",
      "name=" + name +
          " session=" + std::to_string(static_cast<std::uint64_t>(request.caller.session)));
  return Reply{};
}

Result<Reply> Service::Attach(const Request& request) {
  KVD_TRY(const std::string name, wire::ParseName(request.payload));
  const Result<SnapshotInfo> snapshot = memory_.snapshots().Find(name);
  if (!snapshot || !IsVisible(*snapshot, request.caller.uid)) return FailNoSnapshot(name);
  KVD_TRY(const SequenceInfo info, memory_.sequences().Query(snapshot->sequence));
  SequenceHandle forked = SequenceHandle::kNone;
  const auto before = std::chrono::steady_clock::now();
  KVD_CHECK_OK(memory_.sequences().Fork(snapshot->sequence, OwnerFor(request.caller),
                                        std::span(&forked, 1), std::nullopt, request.applied()));
  const auto after = std::chrono::steady_clock::now();
  if (info.owner.uid == request.caller.uid) samplers_.Inherit(info.handle, {&forked, 1});
  Reply reply;
  reply.sequence = forked;
  reply.value0 = std::chrono::duration_cast<std::chrono::nanoseconds>(after - before).count();
  reply.value1 = info.cell_count;
  return reply;
}

Result<Reply> Service::Snapshots(const Request& request) {
  const auto now_ms =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                     std::chrono::system_clock::now().time_since_epoch())
                                     .count());
  Reply reply;
  reply.unit_bytes = sizeof(wire::SnapshotEntry);
  for (const SnapshotInfo& snapshot : memory_.snapshots().List()) {
    if (!IsVisible(snapshot, request.caller.uid)) continue;
    const Result<SequenceInfo> info = memory_.sequences().Query(snapshot.sequence);
    wire::SnapshotEntry entry{};
    std::memcpy(entry.name, snapshot.name.data(),
                std::min(snapshot.name.size(), sizeof entry.name - 1));
    entry.sequence = static_cast<std::uint64_t>(snapshot.sequence);
    entry.owner_uid = snapshot.owner_uid;
    entry.is_public = snapshot.is_public ? 1 : 0;
    entry.cell_count = info ? info->cell_count : 0;
    entry.age_ms = now_ms > snapshot.published_unix_ms ? now_ms - snapshot.published_unix_ms : 0;
    reply.Append(entry);
  }
  return reply;
}

}  // namespace kvd
