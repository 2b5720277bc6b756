// The operations of an input of client_rings_fuzz. Each operation is encoded as one byte, followed
// by the operands that its comment names.
#pragma once

#include <cstdint>

namespace kvd::test {

enum class DaemonOp : std::uint8_t {
  kTail,          // i8 n: sets completion_tail to the number of taken completions + n
  kHead,          // i8 n: sets submission_head to the number of copied submissions + n
  kHeaderWord,    // u8 index of a word of the header, u64 its new value
  kEntry,         // u8 slot, u8 verb, u8 code, u8 flags, u32 output bytes, u64 output cursor
  kRawEntry,      // u8 slot, the 64 bytes of the entry
  kBytes,         // u32 offset in the segment, u8 number of bytes, the bytes
  kPiece,         // u16 arena offset / 64, u8 kind, u8 tokens, u8 text bytes, u8 log-probabilities
  kBetweenLoads,  // u8 number of loads, u16 index of a word of the segment, u64 its new value
  kNext,          // the client takes a completion, reads its output and releases it
  kKeep,          // the client takes a completion, reads its output and keeps it
  kReleaseAll,    // the client releases every output up to the kept one
  kReserve,       // u32 byte count: the client reserves room for a payload
  kSubmit,        // the client submits a request with the reserved payload
  kSleep,         // the client prepares to sleep
  kWakeUp,
};
inline constexpr unsigned kDaemonOps = 15;

}  // namespace kvd::test
