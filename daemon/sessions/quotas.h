// The limits of each owner, and the file that gives tenants limits of their own.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "daemon/sessions/owners.h"

namespace kvd {

// Quotas: the limits of each resource for one owner (daemon/shares.h; docs/security.md lists the
// limits). `own` is for the daemon's own uid and for the uid of the tenants; `others` applies to
// each other uid separately, and to each tenant for which the tenants' file says nothing else
// (daemon/tenants.h). Flags of the daemon set most of these limits.

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

// Tenants: the limits of the tenants of a program that serves many users under one uid, as a file
// names them (--tenants).
//
// The file is text. A line is empty, a comment ('#' is its first character), a section or a
// setting:
//
//   [default]                            limits of tenants without a section; comes first
//   requests = 64
//   [0b8f6a5e1c2d3e4f5a6b7c8d9e0f1a2b]   a tenant: 32 hexadecimal digits, not all of them 0
//   name = alice                         1 to 63 letters, digits, '_', '-' or '.'; unique
//   connections = 16                     1 to 65,536
//   sequences = 64                       1 to 1,048,576
//   requests = 128                       requests in flight, 1 to 1,048,576
//   pool_share = 0.25                    part of the pool and of the prompt cache, 0 to 1
//   state_slots = 8                      recurrent states, 1 to 1,048,576
//   saved_bytes = 1073741824             bytes of saved states, 0 to 2^50
//   outlive_seconds = 600                longest time that a session outlives its process, 0 to
//                                        604,800
//   outliving_sessions = 4               number of such sessions, 0 to 1,024
//   weight = 2                           part of the tokens of steps, 1 to 1,000
//
// A section inherits the settings of [default], which inherits the daemon's limits for other uids.
// Tenants is a plain value.

struct Tenant {
  TenantId id{};
  std::string name;  // "": the file gives no name
  UidLimits limits;
};

struct Tenants {
  UidLimits defaults;                // the limits of tenants without a section
  std::map<TenantId, Tenant> by_id;  // the sections
};

inline constexpr std::size_t kTenantsFileBytesMax = 1u << 20;
inline constexpr std::size_t kTenantsMax = 4096;

// Reads the text of a tenants' file. `base`: the limits that [default] inherits. Errors, naming
// the line: kInvalidArgument (a line that is none of the four kinds, an unknown or repeated
// setting, a value out of its range, a tenant or name that occurs twice, [default] after another
// section), kNoSpace (more than kTenantsMax tenants).
Result<Tenants> ParseTenants(std::string_view text, const UidLimits& base);

// Reads the file `path`. Errors: kIo, kNoSpace (more than kTenantsFileBytesMax bytes), and those of
// ParseTenants; the message names the path.
Result<Tenants> ReadTenants(const std::string& path, const UidLimits& base);

}  // namespace kvd
