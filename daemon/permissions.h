// Permissions: pure functions that decide which operations a caller may perform on a sequence.
//
//                                   list, read, fork    change (edit, append, drop, publish)
//   the owning session                    yes                  yes
//   another session of the same owner     yes                  if retained, or with force
//   another owner                         public snapshots     no
//
// A published sequence is immutable for every caller. If the caller may not see a sequence, the
// error is kNotFound with the same text as for a handle that never existed.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/ids.h"
#include "engine/memory/memory.h"
#include "shm/verb_slots.h"

namespace kvd {

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
