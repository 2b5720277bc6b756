// The functions of kvd.h for snapshots.
#include <algorithm>
#include <cstring>
#include <vector>

#include "client/c_api.h"
#include "client/kvd.h"

namespace kvd {
namespace {

constexpr std::uint32_t kPublishFlags = KVD_FORCE | KVD_PUBLIC;

Status Publish(kvd_client* client, kvd_sequence sequence, const char* name,
               std::uint32_t ttl_seconds, std::uint32_t flags, std::uint32_t flags_allowed,
               kvd_sequence* snapshot, kvd_request* later) {
  KVD_CHECK_OK(NotNull(name, "name"));
  KVD_TRY(const auto wire_flags, FlagsFrom(flags, flags_allowed));
  KVD_CHECK_OK(CheckTtl(ttl_seconds));
  const auto payload = BytesFrom(name);
  return Ask(client, later, wire::PublishArgs{HandleFrom(sequence), ttl_seconds},
             PayloadOf(payload), wire_flags, [=](const wire::PublishReply& reply) -> Status {
               if (snapshot != nullptr) *snapshot = static_cast<kvd_sequence>(reply.sequence);
               return {};
             });
}

Status Unpublish(kvd_client* client, const char* name, std::uint32_t flags, kvd_request* later) {
  KVD_CHECK_OK(NotNull(name, "name"));
  KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_FORCE));
  const auto payload = BytesFrom(name);
  return Ask(client, later, wire::UnpublishArgs{}, PayloadOf(payload), wire_flags, kGiveNothing);
}

Status Attach(kvd_client* client, const char* name, kvd_sequence* sequence, kvd_fork_info* info,
              kvd_request* later) {
  KVD_CHECK_OK(NotNull(name, "name"));
  KVD_CHECK_OK(NotNull(sequence, "sequence"));
  const auto payload = BytesFrom(name);
  return Ask(client, later, wire::AttachArgs{}, PayloadOf(payload), 0,
             [=](const wire::ForkedReply& reply) -> Status {
               *sequence = static_cast<kvd_sequence>(reply.sequence);
               if (info != nullptr) *info = {reply.nanoseconds, reply.cells, 0};
               return {};
             });
}

Status Snapshots(kvd_client* client, kvd_snapshot_info** list, std::size_t* count,
                 kvd_request* later) {
  KVD_CHECK_OK(NotNull(list, "list"));
  KVD_CHECK_OK(NotNull(count, "count"));
  return Ask(client, later, wire::SnapshotsArgs{}, {}, 0, [=](const auto& reply) -> Status {
    std::vector<kvd_snapshot_info> infos;
    for (const wire::SnapshotEntry& entry : reply.entries) {
      kvd_snapshot_info info{};
      std::memcpy(info.name, entry.name, ::strnlen(entry.name, sizeof entry.name));
      info.sequence = entry.sequence;
      info.owner_uid = entry.owner_uid;
      info.is_public = entry.is_public;
      info.is_ephemeral = entry.is_ephemeral;
      info.cell_count = entry.cell_count;
      info.expires_in_seconds = entry.expires_in_seconds;
      info.age_ms = entry.age_ms;
      infos.push_back(info);
    }
    return GiveList(infos, list, count);
  });
}

}  // namespace
}  // namespace kvd

using namespace kvd;

int kvd_publish(kvd_client* client, kvd_sequence sequence, const char* name, uint32_t flags,
                kvd_sequence* snapshot) {
  return CallBody(
      [&] { return Publish(client, sequence, name, 0, flags, kPublishFlags, snapshot, nullptr); });
}
int kvd_publish_submit(kvd_client* client, kvd_sequence sequence, const char* name, uint32_t flags,
                       kvd_sequence* snapshot, kvd_request* request) {
  return SubmitBody(request, [&] {
    return Publish(client, sequence, name, 0, flags, kPublishFlags, snapshot, request);
  });
}
int kvd_publish_with(kvd_client* client, kvd_sequence sequence, const char* name,
                     uint32_t ttl_seconds, uint32_t flags, kvd_sequence* snapshot) {
  return CallBody([&] {
    return Publish(client, sequence, name, ttl_seconds, flags, kPublishFlags | KVD_EPHEMERAL,
                   snapshot, nullptr);
  });
}
int kvd_publish_with_submit(kvd_client* client, kvd_sequence sequence, const char* name,
                            uint32_t ttl_seconds, uint32_t flags, kvd_sequence* snapshot,
                            kvd_request* request) {
  return SubmitBody(request, [&] {
    return Publish(client, sequence, name, ttl_seconds, flags, kPublishFlags | KVD_EPHEMERAL,
                   snapshot, request);
  });
}

int kvd_unpublish(kvd_client* client, const char* name, uint32_t flags) {
  return CallBody([&] { return Unpublish(client, name, flags, nullptr); });
}
int kvd_unpublish_submit(kvd_client* client, const char* name, uint32_t flags,
                         kvd_request* request) {
  return SubmitBody(request, [&] { return Unpublish(client, name, flags, request); });
}

int kvd_attach(kvd_client* client, const char* name, kvd_sequence* sequence, kvd_fork_info* info) {
  return CallBody([&] { return Attach(client, name, sequence, info, nullptr); });
}
int kvd_attach_submit(kvd_client* client, const char* name, kvd_sequence* sequence,
                      kvd_fork_info* info, kvd_request* request) {
  return SubmitBody(request, [&] { return Attach(client, name, sequence, info, request); });
}

int kvd_snapshots(kvd_client* client, kvd_snapshot_info** list, size_t* count) {
  return CallBody([&] { return Snapshots(client, list, count, nullptr); });
}
int kvd_snapshots_submit(kvd_client* client, kvd_snapshot_info** list, size_t* count,
                         kvd_request* request) {
  return SubmitBody(request, [&] { return Snapshots(client, list, count, request); });
}
