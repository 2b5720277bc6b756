// Who may do what to a sequence: the whole table, as pure functions.
//
//                                   list, read, fork    change (edit, append, drop, publish)
//   the owning session                    yes                  yes
//   another session of the same uid       yes                  retained, or with force
//   another uid                           of a public snapshot no
//
// What a caller may not see does not exist for it: kNotFound, with the same words as for a handle
// that never was.
#pragma once

#include <cstdint>

#include "engine/memory/memory.h"
#include "shm/error.h"
#include "shm/ids.h"

namespace kvd {

struct Caller {
  SessionId session = SessionId::kNone;
  std::uint32_t uid = 0;
  std::uint64_t salt = 0;  // of the namespace of its sequences
};

enum class SequenceAccess : std::uint8_t {
  kNone,           // it does not exist for the caller
  kRead,           // list, read the text of, fork
  kChangeByForce,  // kRead, and everything else with kFlagForce
  kChange,         // everything
};

SequenceAccess AccessOf(const Caller& caller, const SequenceInfo& sequence);

// The errors of a sequence that the caller may not see or change. `what` names the field
// ("sequence", "sequence2").
std::unexpected<Error> FailNotFound(const char* what, SequenceHandle handle);

// Status of reading or changing with that access. Errors: kNotFound, kPermission (the message names
// kFlagForce's spelling where it would help, and the owner where it would not).
Status CheckRead(SequenceAccess access, const char* what, SequenceHandle handle);
Status CheckChange(SequenceAccess access, bool force, const char* what,
                   const SequenceInfo& sequence);

}  // namespace kvd
