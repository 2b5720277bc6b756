// MapGeometry: the size of a `map` segment, and the shards of its parts.
//
// MapGeometry is a value. The daemon computes the geometry; the client reads it from the segment's
// header once and validates it.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "shm/map_layout.h"

namespace kvd {

enum class MapSection : std::uint8_t { kTotals, kSessions, kBlocks, kSequences };

struct MapGeometry {
  std::uint32_t block_count = 0;
  std::uint32_t sequence_capacity = 0;
  std::uint32_t session_capacity = 0;

  std::uint32_t FirstShard(MapSection part) const;
  std::uint32_t ShardCount(MapSection part) const;
  std::uint32_t shard_count() const;
  std::uint64_t shards_offset() const;
  std::uint64_t total_bytes() const;

  friend bool operator==(const MapGeometry&, const MapGeometry&) = default;
};

// Returns the number of entries in one shard.
std::uint32_t MapEntries(MapSection part);

// Checks that every count is at least 1, that there are at most 2^26 blocks, and that there are at
// most 2^20 sequences and 2^20 sessions. Errors: kInvalidArgument, naming the field.
Status ValidateMapGeometry(const MapGeometry& geometry);

}  // namespace kvd
