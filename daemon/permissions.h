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
#include <string_view>

#include "engine/memory/memory.h"
#include "shm/error.h"
#include "shm/ids.h"
#include "shm/verb_slots.h"

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
std::unexpected<Error> FailNotFound(std::string_view what, SequenceHandle handle);

// Whether the caller may do with it what an argument of that rule needs. kEdit is as kChange here.
// Errors: kNotFound, kPermission (the message names kFlagForce's spelling where it would help, and
// the owner where it would not).
Status CheckAccess(wire::Access needed, const Caller& caller, const SequenceInfo& sequence,
                   bool force, std::string_view what);

}  // namespace kvd
