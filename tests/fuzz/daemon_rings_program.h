// The operations of an input of daemon_rings_fuzz: a byte, then the operands named here.
#pragma once

#include <cstdint>

#include "shm/channel_geometry.h"

namespace kvd::test {

enum class ClientOp : std::uint8_t {
  kTail,          // i8: submission_tail = submissions taken + that
  kHeaderWord,    // u8 number of a word of the header, u64 its value
  kEntry,         // u8 number, u8 verb, u16 payload bytes, u32 offset of the payload
  kRawEntry,      // u8 number, 64 bytes
  kBytes,         // u32 offset in the segment, u8 how many, the bytes
  kBetweenLoads,  // u8 loads from now, u16 number of a word in header and entries, u64 its value
  kWaiting,       // the daemon looks
  kTake,          // the daemon takes a submission
  kRead,          // u8: completion_head = that many further; u16: output_released, in 64 bytes
  kRefresh,       // the daemon looks at what was read
  kReserve,       // the daemon keeps a slot for an answer
  kUnreserve,     // and gives it back
  kAllocate,      // u16: the daemon makes an output of that many bytes
  kAbandon,       // u8 which of the outputs: it is given back
  kWriteMore,     // u8 which, u8 eighths of it: a piece of an answer
  kWriteFinal,    // the same: the end of one
  kPublish,
  kPeek,  // u8: the daemon looks at the one that waits behind so many others
};
inline constexpr unsigned kClientOps = 18;

// Of the daemon's pool: more tokens than that are refused.
inline constexpr std::uint64_t kPoolCells = 100;

// The smallest.
inline constexpr ChannelGeometry kSmallRings{.submission_entries = 8,
                                             .completion_entries = 16,
                                             .request_arena_bytes = 64u << 10,
                                             .result_arena_bytes = 64u << 10};

}  // namespace kvd::test
