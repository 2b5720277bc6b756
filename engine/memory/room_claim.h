// RoomClaim: what a request asks of the memory for its next tokens, and whether they have room.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "base/ids.h"

namespace kvd {

enum class RoomVerdict : std::uint8_t {
  kFits,
  kWaits,  // the tokens fit when other sequences have given room
  kNever,  // the tokens exceed the pool or the owner's limit, whatever the others hold
};

// The caller sets handle, tokens and must_wait; Steps::FindRoom sets the rest.
struct RoomClaim {
  SequenceHandle handle = SequenceHandle::kNone;
  std::size_t tokens = 0;  // of all steps of the request if it takes a promise, else of the next
  RoomVerdict verdict = RoomVerdict::kFits;
  bool must_wait = false;  // set by the caller: it waits, and those behind it as behind any claim
  // The tokens need blocks or a state slot that other sequences could take.
  bool takes_room = false;
  bool is_behind_owner = false;  // waits only because an earlier claim of the same owner waits
  bool is_owner_limit = false;   // waits because of the owner's limit, not because of the pool
  Error reason = {};             // of a claim that does not fit: the numbers
};

}  // namespace kvd
