// RequestTag: on whose behalf a change is made. The commit that makes the change also remembers the
// tag, so a request that is sent again after a crash is found applied or not applied, never half.
#pragma once

#include <cstdint>

#include "shm/ids.h"

namespace kvd {

struct RequestTag {
  SessionId session = SessionId::kNone;
  RequestId request{};     // 0: nobody's; nothing is remembered
  std::uint16_t kind = 0;  // kept with it and given back; the memory does not know what it means
  // False: a part of the request, after which more commits follow. Sequences that are made are
  // marked as its own, and the request is not remembered as applied.
  bool completes = true;
  std::uint32_t replayed = 0;  // tokens computed again for it, for its answer

  bool is_somebodys() const { return request != RequestId{}; }
};

// What is remembered of an applied request: layout::AppliedRecord.
struct AppliedReply {
  SequenceHandle sequence = SequenceHandle::kNone;
  std::uint32_t cells = 0;
  std::uint32_t replayed = 0;
  std::uint16_t kind = 0;
  std::uint16_t created = 0;  // sequences made
  bool has_ended = true;      // else what it changes outside this memory may be changed or not
};

}  // namespace kvd
