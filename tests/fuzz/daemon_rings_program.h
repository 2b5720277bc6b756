// The operations of an input of daemon_rings_fuzz. Each operation is encoded as one byte, followed
// by the operands that its comment names.
#pragma once

#include <cstdint>

#include "shm/channel_geometry.h"

namespace kvd::test {

enum class ClientOp : std::uint8_t {
  kTail,          // i8 n: sets submission_tail to the number of taken submissions + n
  kHeaderWord,    // u8 index of a word of the header, u64 its new value
  kEntry,         // u8 slot, u8 verb, u16 payload bytes, u32 offset of the payload
  kRawEntry,      // u8 slot, the 64 bytes of the entry
  kBytes,         // u32 offset in the segment, u8 number of bytes, the bytes
  kBetweenLoads,  // u8 number of loads, u16 index of a word of header and entries, u64 its value
  kWaiting,       // the daemon counts the waiting submissions
  kTake,          // the daemon takes a submission
  kRead,          // u8: added to completion_head; u16: units of 64 bytes for output_released
  kRefresh,       // the daemon reads the client's head and release cursor
  kReserve,       // the daemon reserves a slot for an answer
  kUnreserve,     // the daemon returns a reserved slot
  kAllocate,      // u16 byte count: the daemon allocates an output
  kAbandon,       // u8 index of an allocated output: the daemon abandons it
  kWriteMore,     // u8 index of an output, u8 eighths of it to use: the daemon writes a piece
  kWriteFinal,    // the operands of kWriteMore: the daemon writes the final completion
  kPublish,
  kPeek,  // u8 n: the daemon reads the waiting submission number n without taking it
};
inline constexpr unsigned kClientOps = 18;

// The cells of the daemon's pool. A request with more tokens is refused.
inline constexpr std::uint64_t kPoolCells = 100;

// The smallest rings and arenas that the protocol allows.
inline constexpr ChannelGeometry kSmallRings{.submission_entries = 8,
                                             .completion_entries = 16,
                                             .request_arena_bytes = 64u << 10,
                                             .result_arena_bytes = 64u << 10};

}  // namespace kvd::test
