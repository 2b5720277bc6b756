// The limits of docs/security.md as plain values, each a flag: how much one owner may hold of each
// resource (daemon/shares.h). The daemon's own uid has limits of its own; those of `others` are for
// every other uid by itself.
#pragma once

#include <cstdint>

namespace kvd {

inline constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

struct UidLimits {
  std::uint32_t connections = 0;
  std::uint32_t sequences = 0;
  double pool_share = 1.0;                // of the memory and of the prompt cache, (0, 1]
  std::uint32_t requests_in_flight = 0;   // submitted and not yet answered for the last time
  std::uint64_t result_arena_bytes = 0;   // result arenas of all its connections together
  std::uint64_t saved_bytes = 0;          // of its saved states
  std::uint64_t request_arena_bytes = 0;  // request arenas of all its connections together
  // Of its requests and their answers, beside the arenas: copies of payloads in work, uploads,
  // exports, answers that wait to be sent.
  std::uint64_t held_bytes = 0;
};

struct Quotas {
  // Part of the memory and of the prompt cache that the daemon's own uid leaves free for the others
  // once others may connect.
  double reserve_share = 0.05;
  // Of all owners together; each has its pool share of them.
  std::uint64_t prompt_cache_bytes = 4ull << 30;
  std::uint64_t prompt_cache_entries = 1u << 14;
  UidLimits own{.connections = 256,
                .sequences = 16384,
                .pool_share = 1.0,
                .requests_in_flight = 16384,
                .result_arena_bytes = 4ull << 30,
                .saved_bytes = kNoLimit,  // the disk is the limit
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

}  // namespace kvd
