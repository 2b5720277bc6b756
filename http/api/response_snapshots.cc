#include "http/api/response_snapshots.h"

#include <algorithm>
#include <utility>

#include "http/answer/response_store.h"

namespace kvd::http {

std::vector<std::string> SnapshotsBeyond(std::vector<ResponseSnapshot> snapshots,
                                         std::size_t count_max, std::uint64_t bytes_max) {
  std::ranges::stable_sort(snapshots, {}, &ResponseSnapshot::age_ms);
  std::vector<std::string> beyond;
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  for (ResponseSnapshot& snapshot : snapshots) {
    const bool fits = beyond.empty() && count < count_max && snapshot.bytes <= bytes_max - bytes;
    if (!fits) {
      beyond.push_back(std::move(snapshot.name));
      continue;
    }
    ++count;
    bytes += snapshot.bytes;
  }
  return beyond;
}

Await<void> PublishResponse(TenantSession& tenant, std::shared_ptr<DaemonSession> session,
                            SequenceHandle sequence, std::string id, std::uint64_t bytes_max) {
  const wire::InfoReply& info = tenant.model().info();
  const auto bytes_of = [&info](std::uint64_t cells) {
    return cells * info.cell_bytes + info.state_bytes;
  };
  const auto own = co_await session->Query(sequence);
  if (!own || bytes_of(own->cell_count) > bytes_max) co_return;
  const SequenceLifetime life{.ttl_seconds = kResponseTtlSeconds};
  const auto published = co_await session->Publish(sequence, id, 0, life);
  const auto listed = co_await session->Call(wire::SnapshotsArgs{});
  if (!published || !listed) co_return;
  std::vector<ResponseSnapshot> snapshots;
  for (const wire::SnapshotEntry& entry : listed->entries) {
    std::string name(entry.name, ::strnlen(entry.name, sizeof entry.name));
    if (!ResponseStore::IsId(name)) continue;
    snapshots.push_back({std::move(name), entry.age_ms, bytes_of(entry.cell_count)});
  }
  for (const std::string& name :
       SnapshotsBeyond(std::move(snapshots), kResponseSnapshotsMax, bytes_max)) {
    (void)co_await session->Unpublish(name);
  }
}

}  // namespace kvd::http
