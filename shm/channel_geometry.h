// ChannelGeometry: the sizes of the two segments of one client and the offsets of their parts.
//
// ChannelGeometry is a value. The daemon computes the geometry from Hello and the client computes
// it from Welcome; both trust only their own copy, never the header inside a segment.
#pragma once

#include <cstdint>

#include "base/error.h"
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

// Checks a geometry: entry counts are powers of two in [kEntriesMin, kEntriesMax]; the completion
// ring has at least twice the entries of the submission ring; arenas are multiples of 4096 in
// [kArenaBytesMin, kArenaBytesMax]. Errors: kInvalidArgument, naming the field, the number and the
// limit.
Status ValidateGeometry(const ChannelGeometry& geometry);

// Returns the validated geometry of segments with the sizes that Welcome reports. Errors: as for
// ValidateGeometry.
Result<ChannelGeometry> GeometryOfSegments(std::uint32_t submission_entries,
                                           std::uint32_t completion_entries,
                                           std::uint64_t request_segment_bytes,
                                           std::uint64_t result_segment_bytes);

}  // namespace kvd
