// The functions of kvd.h for snapshots.
#include <algorithm>
#include <cstring>
#include <vector>

#include "client/c_api.h"
#include "client/kvd.h"

using namespace kvd;

int kvd_publish(kvd_client* client, kvd_sequence sequence, const char* name,
                const kvd_sequence_options* options, kvd_sequence* snapshot, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(name, "name"));
    KVD_TRY(const NewSequenceOptions made,
            NewSequenceFrom(options, KVD_FORCE | KVD_PUBLIC | KVD_EPHEMERAL));
    const auto payload = BytesFrom(name);
    return Ask(client, later, wire::PublishArgs{HandleFrom(sequence), made.ttl_seconds},
               PayloadOf(payload), made.flags, [=](const wire::PublishReply& reply) -> Status {
                 if (snapshot != nullptr) *snapshot = static_cast<kvd_sequence>(reply.sequence);
                 return {};
               });
  });
}

int kvd_unpublish(kvd_client* client, const char* name, uint32_t flags, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(name, "name"));
    KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_FORCE));
    const auto payload = BytesFrom(name);
    return Ask(client, later, wire::UnpublishArgs{}, PayloadOf(payload), wire_flags, kGiveNothing);
  });
}

int kvd_attach(kvd_client* client, const char* name, kvd_sequence* sequence, kvd_fork_info* info,
               kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(name, "name"));
    KVD_CHECK_OK(NotNull(sequence, "sequence"));
    const auto payload = BytesFrom(name);
    return Ask(client, later, wire::AttachArgs{}, PayloadOf(payload), 0,
               [=](const wire::ForkedReply& reply) -> Status {
                 *sequence = static_cast<kvd_sequence>(reply.sequence);
                 if (info != nullptr) *info = {reply.nanoseconds, reply.cells, 0};
                 return {};
               });
  });
}

int kvd_snapshots(kvd_client* client, kvd_snapshot_info** list, size_t* count, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
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
  });
}
