// RequestTag: the request that a change is made for. The commit that makes the change also records
// the tag, so a request that is retried after a crash is found either applied or not applied, never
// half applied.
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace kvd {

struct RequestTag {
  SessionId session = SessionId::kNone;
  RequestId request{};     // 0: not made for a client's request; nothing is recorded
  std::uint16_t kind = 0;  // a number that the memory stores and returns but does not interpret
  // False: further commits of the request follow. New sequences are marked with the request, and
  // the request is not recorded as applied.
  bool completes = true;
  // Number of tokens replayed for the request; part of the request's answer.
  std::uint32_t replayed = 0;

  bool is_somebodys() const { return request != RequestId{}; }
};

// The recorded answer of an applied request; a copy of layout::AppliedRecord.
struct AppliedReply {
  SequenceHandle sequence = SequenceHandle::kNone;
  std::uint32_t cells = 0;
  std::uint32_t replayed = 0;
  std::uint16_t kind = 0;
  std::uint16_t created = 0;  // number of sequences made
  bool has_ended = true;      // false: changes outside of this memory may or may not have been made
};

}  // namespace kvd
