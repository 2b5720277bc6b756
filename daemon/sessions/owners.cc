#include "daemon/sessions/owners.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "base/siphash.h"
#include "base/text.h"

namespace kvd {

OwnerId OwnerOf(std::uint32_t uid, const TenantId& tenant) {
  if (tenant == kTenantZero) return OwnerOf(uid);
  // The key is fixed, because the numbers are stored. Its bytes are "kvd: owner of a ".
  constexpr std::uint64_t kKey[2] = {0x6e776f203a64766bull, 0x206120666f207265ull};
  char bytes[sizeof uid + std::tuple_size_v<TenantId>];
  std::memcpy(bytes, &uid, sizeof uid);
  std::memcpy(bytes + sizeof uid, tenant.data(), tenant.size());
  const std::uint64_t hash = SipHash24(kKey[0], kKey[1], std::string_view(bytes, sizeof bytes));
  constexpr std::uint64_t kTenantBit = std::uint64_t{1} << 62;
  return OwnerId{(hash & (kTenantBit - 1)) | kTenantBit};
}

std::string OwnerText(OwnerId owner) {
  const auto number = static_cast<std::uint64_t>(owner);
  if (!IsTenant(owner)) return Concat("uid=", number);
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return Concat("tenant=", digits);
}

// Implements the table of permissions in owners.h: the first row of the table that matches
// determines the access.

SequenceAccess AccessOf(const Caller& caller, const SequenceInfo& sequence) {
  // Published sequences are immutable for all callers, including their owner. Only kUnpublish
  // removes a published sequence, by its name.
  const bool published = (sequence.flags & layout::kSequencePublished) != 0;
  if (sequence.owner.id != caller.owner) {
    return published && sequence.is_public ? SequenceAccess::kRead : SequenceAccess::kNone;
  }
  if (published) return SequenceAccess::kRead;
  if (sequence.owner.session == caller.session) return SequenceAccess::kChange;
  if ((sequence.flags & layout::kSequenceRetained) != 0) return SequenceAccess::kChange;
  return SequenceAccess::kChangeByForce;
}

std::unexpected<Error> FailNotFound(std::string_view what, SequenceHandle handle) {
  return Fail(Code::kNotFound, what, " ", static_cast<std::uint64_t>(handle), ": no such sequence");
}

namespace {

Status CheckChange(SequenceAccess access, bool force, std::string_view what,
                   const SequenceInfo& sequence) {
  const std::string name = Concat(what, " ", static_cast<std::uint64_t>(sequence.handle), ": ");
  switch (access) {
    case SequenceAccess::kNone: return FailNotFound(what, sequence.handle);
    case SequenceAccess::kChange: return {};
    case SequenceAccess::kChangeByForce:
      if (force) return {};
      return Fail(Code::kPermission, name, "belongs to session ",
                  static_cast<std::uint64_t>(sequence.owner.session),
                  "; fork it, or set the force flag");
    case SequenceAccess::kRead:
      return Fail(Code::kPermission, name, "is published and immutable; fork it");
  }
  return Fail(Code::kInternal, name, "access ", static_cast<int>(access));
}

}  // namespace

Status CheckAccess(wire::Access needed, const Caller& caller, const SequenceInfo& sequence,
                   bool force, std::string_view what) {
  const SequenceAccess access = AccessOf(caller, sequence);
  if (access == SequenceAccess::kNone) return FailNotFound(what, sequence.handle);
  switch (needed) {
    case wire::Access::kNone:
    case wire::Access::kRead: return {};
    case wire::Access::kChange:
    case wire::Access::kEdit: return CheckChange(access, force, what, sequence);
    case wire::Access::kOwn: {
      const bool is_published = (sequence.flags & layout::kSequencePublished) != 0;
      if (sequence.owner.session == caller.session && !is_published) return {};
      return Fail(Code::kPermission, what, " ", static_cast<std::uint64_t>(sequence.handle),
                  ": does not belong to this session, or is published");
    }
  }
  return Fail(Code::kInternal, "access ", static_cast<int>(needed));
}

}  // namespace kvd
