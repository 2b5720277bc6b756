// The operations of an input of client_rings_fuzz: a byte, then the operands named here.
#pragma once

#include <cstdint>

namespace kvd::test {

enum class DaemonOp : std::uint8_t {
  kTail,          // i8: completion_tail = completions taken + that
  kHead,          // i8: submission_head = the submissions that were said to be copied + that
  kHeaderWord,    // u8 number of a word of the header, u64 its value
  kEntry,         // u8 number, u8 verb, u8 code, u8 flags, u32 output bytes, u64 output cursor
  kRawEntry,      // u8 number, 64 bytes
  kBytes,         // u32 offset in the segment, u8 how many, the bytes
  kPiece,         // u16 64th of the arena, u8 kind, u8 tokens, u8 text bytes, u8 log-probabilities
  kBetweenLoads,  // u8 loads from now, u16 number of a word of the segment, u64 its value
  kNext,          // the client takes a completion, reads its output and gives it back
  kKeep,          // the same, and the output is kept
  kReleaseAll,    // what is kept is given back
  kReserve,       // u32: the client asks for room for a payload
  kSubmit,        // and sends it
  kSleep,         // it wants to sleep
  kWakeUp,
};
inline constexpr unsigned kDaemonOps = 15;

}  // namespace kvd::test
