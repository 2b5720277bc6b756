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
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "daemon/owner_of_uid.h"
#include "daemon/quotas.h"

namespace kvd {

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
