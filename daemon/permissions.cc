// Implements the table in permissions.h: the first row of the table that matches determines the
// access.
#include "daemon/permissions.h"

#include <string>

#include "base/text.h"

namespace kvd {

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
