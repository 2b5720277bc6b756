// Quotas: the limits of each resource for one owner (daemon/shares.h; docs/security.md lists the
// limits). `own` is for the daemon's own uid and for the uid of the tenants; `others` applies to
// each other uid separately, and to each tenant for which the tenants' file says nothing else
// (daemon/tenants.h). Flags of the daemon set most of these limits.
#pragma once

#include <cstdint>

namespace kvd {

inline constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};
inline constexpr std::uint32_t kWeightMax = 1000;

struct UidLimits {
  std::uint32_t connections = 0;
  std::uint32_t sequences = 0;
  // Part of the memory and of the prompt cache that the owner may use, 0 to 1.
  double pool_share = 1.0;
  // Number of requests that were submitted and have no final answer yet.
  std::uint32_t requests_in_flight = 0;
  // Bytes of the result arenas of all the owner's connections together.
  std::uint64_t result_arena_bytes = 0;
  std::uint64_t saved_bytes = 0;  // bytes of the owner's saved states
  // Bytes of the request arenas of all the owner's connections together.
  std::uint64_t request_arena_bytes = 0;
  // Bytes that the daemon holds for the owner's requests and answers in addition to the arenas:
  // copies of payloads in use, uploads, exports, and answers that wait to be sent.
  std::uint64_t held_bytes = 0;
  // Slots of recurrent states, in addition to the limit that follows from pool_share.
  std::uint64_t state_slots = kNoLimit;
  // Sessions that outlive their processes: their number, and the longest time of each in seconds.
  std::uint32_t outliving_sessions = 16;
  std::uint32_t outlive_seconds = 3600;
  // The tokens of steps are divided between owners in proportion to their weights, 1 to kWeightMax.
  std::uint32_t weight = 1;
};

struct Quotas {
  // The part of the memory and of the prompt cache that the daemon's own uid leaves free for other
  // uids if other uids may connect.
  double reserve_share = 0.05;
  // Limits of the prompt cache for all owners together; each owner may use the part
  // UidLimits::pool_share of these limits.
  std::uint64_t prompt_cache_bytes = 4ull << 30;
  std::uint64_t prompt_cache_entries = 1u << 14;
  UidLimits own{.connections = 256,
                .sequences = 16384,
                .pool_share = 1.0,
                .requests_in_flight = 16384,
                .result_arena_bytes = 4ull << 30,
                .saved_bytes = kNoLimit,  // the bytes of saved states are limited only by the disk
                .request_arena_bytes = 4ull << 30,
                .held_bytes = 4ull << 30,
                .outliving_sessions = 128,
                .outlive_seconds = 604'800};
  UidLimits others{.connections = 8,
                   .sequences = 64,
                   .pool_share = 0.25,
                   .requests_in_flight = 256,
                   .result_arena_bytes = 64ull << 20,
                   .saved_bytes = 4ull << 30,
                   .request_arena_bytes = 64ull << 20,
                   .held_bytes = 256ull << 20};
};

}  // namespace kvd
