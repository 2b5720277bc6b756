// ChannelGeometry: how large the two segments of one client are, and where their parts lie.
//
// A value; both sides compute it (the daemon from Hello, the client from Welcome) and trust their
// own copy alone, never the header inside a segment.
#pragma once

#include <cstdint>

#include "shm/error.h"
#include "shm/wire_messages.h"

namespace kvd {

struct ChannelGeometry {
  std::uint32_t submission_entries = wire::kEntriesDefault;
  std::uint32_t completion_entries = 2 * wire::kEntriesDefault;
  std::uint64_t request_arena_bytes = wire::kRequestArenaBytesDefault;
  std::uint64_t result_arena_bytes = wire::kResultArenaBytesDefault;

  std::uint64_t request_arena_offset() const;
  std::uint64_t result_arena_offset() const;
  std::uint64_t request_segment_bytes() const;
  std::uint64_t result_segment_bytes() const;

  friend bool operator==(const ChannelGeometry&, const ChannelGeometry&) = default;
};

// Entries are powers of two in [kEntriesMin, kEntriesMax], completions at least twice the
// submissions, arenas multiples of 4096 in [kArenaBytesMin, kArenaBytesMax]. Errors:
// kInvalidArgument, naming the field, the number and the limit.
Status ValidateGeometry(const ChannelGeometry& geometry);

// What Welcome's numbers say, computed back from the segment sizes and validated. Errors as above.
Result<ChannelGeometry> GeometryOfSegments(std::uint32_t submission_entries,
                                           std::uint32_t completion_entries,
                                           std::uint64_t request_segment_bytes,
                                           std::uint64_t result_segment_bytes);

}  // namespace kvd
