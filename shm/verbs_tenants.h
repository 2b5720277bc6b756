// Arguments and replies of the verb that lists the tenants of a uid.
#pragma once

#include "shm/verb_slots.h"

namespace kvd::wire {

inline constexpr std::uint64_t kNoTenantLimit = ~std::uint64_t{0};

// A tenant of the tenants' file, or a connected tenant. Numbers named `held` are present values;
// kNoTenantLimit as a limit: none. A tenant without sequences and connections holds nothing.
struct TenantEntry {
  std::uint8_t tenant[16];  // Hello::tenant
  char name[64];            // of the tenants' file, zero terminated; empty: none
  std::uint64_t sequences_held;
  std::uint64_t sequences_max;
  std::uint64_t cells_held;  // cells of the blocks of group 0
  std::uint64_t cells_max;
  std::uint64_t state_slots_held;
  std::uint64_t state_slots_max;
  std::uint64_t requests_held;  // in flight
  std::uint64_t requests_max;
  std::uint64_t connections_held;
  std::uint64_t connections_max;
  std::uint64_t saved_bytes_held;  // bytes of the files
  std::uint64_t saved_bytes_max;
  std::uint64_t weight;
};
static_assert(sizeof(TenantEntry) == 184);

struct TenantsArgs {};

}  // namespace kvd::wire
