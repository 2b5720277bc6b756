#include "shm/channel_geometry.h"

#include <bit>
#include <string>

#include "base/rounding.h"
#include "shm/segment_layout.h"

namespace kvd {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

constexpr std::uint64_t ArenaOffset(std::uint64_t header_bytes, std::uint64_t entries,
                                    std::uint64_t entry_bytes) {
  return RoundUp(header_bytes + entries * entry_bytes, kPageBytes);
}

Status CheckEntries(const char* field, std::uint32_t entries) {
  if (entries >= wire::kEntriesMin && entries <= wire::kEntriesMax &&
      std::has_single_bit(entries)) {
    return {};
  }
  return Fail(Code::kInvalidArgument, field, ": ", entries, ", a power of two from ",
              wire::kEntriesMin, " to ", wire::kEntriesMax, " wanted");
}

Status CheckArena(const char* field, std::uint64_t arena_bytes) {
  if (arena_bytes >= wire::kArenaBytesMin && arena_bytes <= wire::kArenaBytesMax &&
      arena_bytes % kPageBytes == 0) {
    return {};
  }
  return Fail(Code::kInvalidArgument, field, ": ", arena_bytes, ", a multiple of 4096 from ",
              wire::kArenaBytesMin, " to ", wire::kArenaBytesMax, " wanted");
}

}  // namespace

std::uint64_t ChannelGeometry::request_arena_offset() const {
  return ArenaOffset(sizeof(layout::RequestsHeader), submission_entries, sizeof(wire::Submission));
}
std::uint64_t ChannelGeometry::result_arena_offset() const {
  return ArenaOffset(sizeof(layout::ResultsHeader), completion_entries, sizeof(wire::Completion));
}
std::uint64_t ChannelGeometry::request_segment_bytes() const {
  return request_arena_offset() + request_arena_bytes;
}
std::uint64_t ChannelGeometry::result_segment_bytes() const {
  return result_arena_offset() + result_arena_bytes;
}

Status ValidateGeometry(const ChannelGeometry& geometry) {
  KVD_CHECK_OK(CheckEntries("submission_entries", geometry.submission_entries));
  KVD_CHECK_OK(CheckEntries("completion_entries", geometry.completion_entries));
  if (geometry.completion_entries / 2 < geometry.submission_entries) {
    return Fail(Code::kInvalidArgument, "completion_entries: ", geometry.completion_entries,
                ", at least twice the submission_entries, ", geometry.submission_entries,
                ", wanted");
  }
  KVD_CHECK_OK(CheckArena("request_arena_bytes", geometry.request_arena_bytes));
  return CheckArena("result_arena_bytes", geometry.result_arena_bytes);
}

Result<ChannelGeometry> GeometryOfSegments(std::uint32_t submission_entries,
                                           std::uint32_t completion_entries,
                                           std::uint64_t request_segment_bytes,
                                           std::uint64_t result_segment_bytes) {
  ChannelGeometry geometry{submission_entries, completion_entries, 0, 0};
  // If a segment is smaller than its header and ring, the subtraction wraps around, and
  // ValidateGeometry finds the arena too large.
  geometry.request_arena_bytes = request_segment_bytes - geometry.request_arena_offset();
  geometry.result_arena_bytes = result_segment_bytes - geometry.result_arena_offset();
  KVD_CHECK_OK(ValidateGeometry(geometry));
  return geometry;
}

}  // namespace kvd
