// Owners: how a uid and a tenant make an owner, and what the sessions of an owner may do with a
// sequence.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/ids.h"
#include "engine/memory/memory.h"
#include "engine/memory/owner.h"
#include "shm/verb_slots.h"

namespace kvd {

// Owners in the daemon: the engine's number of an owner (OwnerId) is made of a uid and a tenant.
//
// A tenant is one of the users that a program serves under its own uid. Tenants are named by 16
// bytes in the hello of a session; all zero is tenant 0, the uid itself. The owner of (uid, tenant
// 0) is the number of the uid. The owner of (uid, tenant) has bit 62 set, and its low 62 bits are a
// SipHash-2-4 of uid and tenant under a fixed key, so that an owner keeps its number after a
// restart without a table. A daemon refuses a tenant whose number another tenant has
// (Shares::AdmitTenant); with a million tenants, two of them have the same number with a
// probability of 1 in 8 million.

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

// Permissions: pure functions that decide which operations a caller may perform on a sequence.
//
//                                   list, read, fork    change (edit, append, drop, publish)
//   the owning session                    yes                  yes
//   another session of the same owner     yes                  if retained, or with force
//   another owner                         public snapshots     no
//
// A published sequence is immutable for every caller. If the caller may not see a sequence, the
// error is kNotFound with the same text as for a handle that never existed.

struct Caller {
  SessionId session = SessionId::kNone;
  OwnerId owner{};
  std::uint64_t salt = 0;  // salt of the namespace of the caller's sequences
};

enum class SequenceAccess : std::uint8_t {
  kNone,  // the caller has no access; errors do not reveal that the sequence exists
  kRead,  // the caller may list, read and fork the sequence
  // The caller may do what kRead permits, and every change if the request has kFlagForce.
  kChangeByForce,
  kChange,  // the caller may do what kRead permits, and every change
};

SequenceAccess AccessOf(const Caller& caller, const SequenceInfo& sequence);

// Returns the error for a sequence that does not exist or that the caller may not see. `what` names
// the field ("sequence", "sequence2").
std::unexpected<Error> FailNotFound(std::string_view what, SequenceHandle handle);

// Checks that the caller has the access `needed` to the sequence. kEdit is treated like kChange.
// Errors: kNotFound, kPermission (the message suggests the force flag or a fork if that would
// help).
Status CheckAccess(wire::Access needed, const Caller& caller, const SequenceInfo& sequence,
                   bool force, std::string_view what);

}  // namespace kvd
