// The snapshots of stored responses: the cells of the last responses of a tenant, so that the next
// request need not compute them. A response without a snapshot is computed again from its tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "http/answer/tenant_session.h"
#include "http/loop/await.h"

namespace kvd::http {

// Seconds for which the cells of a stored response stay as a snapshot.
inline constexpr std::uint32_t kResponseTtlSeconds = 3600;
// Snapshots of one tenant's responses; the oldest one goes first.
inline constexpr std::size_t kResponseSnapshotsMax = 32;

struct ResponseSnapshot {
  std::string name;
  std::uint64_t age_ms = 0;
  std::uint64_t bytes = 0;  // of its cells, also of those that it shares
};

// The names of the oldest snapshots, without which the others are at most `count_max` and have at
// most `bytes_max` bytes.
std::vector<std::string> SnapshotsBeyond(std::vector<ResponseSnapshot> snapshots,
                                         std::size_t count_max, std::uint64_t bytes_max);

// Publishes a snapshot of the response's sequence, unless it is larger than `bytes_max`, and drops
// the tenant's oldest ones beyond the limits. The snapshot is an advantage, not a promise: errors
// are ignored.
Await<void> PublishResponse(TenantSession& tenant, std::shared_ptr<DaemonSession> session,
                            SequenceHandle sequence, std::string id, std::uint64_t bytes_max);

}  // namespace kvd::http
