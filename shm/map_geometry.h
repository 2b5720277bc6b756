// MapGeometry: how large a `map` segment is and in which shard an entry lies.
//
// A value; the daemon knows it, the client takes it from the header once and validates it.
#pragma once

#include <cstdint>

#include "shm/error.h"
#include "shm/segment_layout.h"

namespace kvd {

enum class MapPart : std::uint8_t { kTotals, kSessions, kBlocks, kSequences };

struct MapGeometry {
  std::uint32_t block_count = 0;
  std::uint32_t sequence_capacity = 0;
  std::uint32_t session_capacity = 0;

  std::uint32_t FirstShard(MapPart part) const;
  std::uint32_t ShardCount(MapPart part) const;
  std::uint32_t shard_count() const;
  std::uint64_t shards_offset() const;
  std::uint64_t total_bytes() const;

  friend bool operator==(const MapGeometry&, const MapGeometry&) = default;
};

// Entries of one shard.
std::uint32_t MapEntries(MapPart part);

// Counts are at least 1, blocks at most 2^26, sequences and sessions at most 2^20. Errors:
// kInvalidArgument, naming the field.
Status ValidateMapGeometry(const MapGeometry& geometry);

}  // namespace kvd
