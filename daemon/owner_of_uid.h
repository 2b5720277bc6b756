// Owners in the daemon: the engine's number of an owner (OwnerId) is made of a uid and a tenant.
//
// A tenant is one of the users that a program serves under its own uid. Tenants are named by 16
// bytes in the hello of a session; all zero is tenant 0, the uid itself. The owner of (uid, tenant
// 0) is the number of the uid. The owner of (uid, tenant) has bit 62 set, and its low 62 bits are a
// SipHash-2-4 of uid and tenant under a fixed key, so that an owner keeps its number after a
// restart without a table. A daemon refuses a tenant whose number another tenant has
// (Shares::AdmitTenant); with a million tenants, two of them have the same number with a
// probability of 1 in 8 million.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "engine/memory/owner.h"

namespace kvd {

using TenantId = std::array<std::uint8_t, 16>;
inline constexpr TenantId kTenantZero{};  // a session without a tenant

constexpr OwnerId OwnerOf(std::uint32_t uid) { return OwnerId{uid}; }
OwnerId OwnerOf(std::uint32_t uid, const TenantId& tenant);

// Returns whether the owner is a tenant other than tenant 0.
constexpr bool IsTenant(OwnerId owner) { return static_cast<std::uint64_t>(owner) > 0xffff'ffffu; }

// Returns the uid of an owner. `tenant_uid`: the uid of all tenants.
constexpr std::uint32_t UidOf(OwnerId owner, std::uint32_t tenant_uid) {
  return IsTenant(owner) ? tenant_uid : static_cast<std::uint32_t>(owner);
}

// Returns the owner as a log line shows it: "uid=1000"; "tenant=4e1b9c5d00f1a2b3", the owner's
// number in hexadecimal digits.
std::string OwnerText(OwnerId owner);

}  // namespace kvd
