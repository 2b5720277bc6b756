// How much one uid may take: the limits of docs/security.md, each a flag, and the sentences that refuse.
//
// Pure values and functions: the owner of a counted thing counts it. The daemon's own
// uid is bounded by the pool and the tables alone; every other uid that was let in by the limits of
// `others`.
#pragma once

#include <cstdint>

#include "engine/memory/shares.h"
#include "shm/error.h"

namespace kvd {

struct UidLimits {
  std::uint32_t connections = 0;
  std::uint32_t sequences = 0;
  double pool_share = 1.0;                // of the pool's blocks, (0, 1]
  std::uint32_t requests_in_flight = 0;   // submitted and not yet answered for the last time
  std::uint64_t result_arena_bytes = 0;   // result arenas of all its connections together
  std::uint64_t saved_bytes = 0;          // of its saved states; the own uid's are not counted
  std::uint64_t request_arena_bytes = 0;  // request arenas of all its connections together
  // Of its requests and their answers, beside the arenas: copies of payloads in work, uploads,
  // exports, answers that wait to be sent.
  std::uint64_t held_bytes = 0;
};

struct Quotas {
  // Part of the pool that the daemon's own uid leaves free for the others once others may connect.
  double reserve_share = 0.05;
  UidLimits own{.connections = 256,
                .sequences = 16384,
                .pool_share = 1.0,
                .requests_in_flight = 16384,
                .result_arena_bytes = 4ull << 30,
                .saved_bytes = 0,
                .request_arena_bytes = 4ull << 30,
                .held_bytes = 4ull << 30};
  UidLimits others{.connections = 8,
                   .sequences = 64,
                   .pool_share = 0.25,
                   .requests_in_flight = 256,
                   .result_arena_bytes = 64ull << 20,
                   .saved_bytes = 4ull << 30,
                   .request_arena_bytes = 64ull << 20,
                   .held_bytes = 256ull << 20};
};

// An owner of the memory is a uid.
class QuotaPolicy : public ShareRules {
 public:
  // `others_admitted`: whether any uid but `daemon_uid` may connect; if not, nothing is held in
  // reserve.
  QuotaPolicy(const Quotas& quotas, std::uint32_t daemon_uid, bool others_admitted);

  bool is_own(std::uint32_t uid) const { return uid == daemon_uid_; }
  // Else there is one owner alone, and the pool itself refuses.
  bool others_admitted() const { return others_admitted_; }
  const UidLimits& Limits(std::uint32_t uid) const;

  // Each: whether a uid that holds `held` may take `wanted` more. Errors: kNoSpace with the
  // numbers.
  Status CheckConnections(std::uint32_t uid, std::uint32_t held) const;
  Status CheckRequests(std::uint32_t uid, std::uint32_t held) const;
  Status CheckResultBytes(std::uint32_t uid, std::uint64_t held, std::uint64_t wanted) const;
  Status CheckRequestBytes(std::uint32_t uid, std::uint64_t held, std::uint64_t wanted) const;
  Status CheckHeldBytes(std::uint32_t uid, std::uint64_t held, std::uint64_t wanted) const;
  Status CheckSavedBytes(std::uint32_t uid, std::uint64_t held, std::uint64_t wanted) const;
  // What the uid may hold of the memory. The own uid is held to the whole less the reserve, by what all
  // uids hold together; and not at all where no other one may connect, since the pool refuses then.
  OwnerLimits LimitsOf(OwnerId owner, const MemoryGeometry& geometry) const override;

 private:
  // The uid's part of so many things; at least 1 of them.
  std::uint64_t PartOf(std::uint32_t uid, std::uint64_t total) const;

  Quotas quotas_;
  std::uint32_t daemon_uid_;
  bool others_admitted_;
};

}  // namespace kvd
