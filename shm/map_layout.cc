#include "shm/map_layout.h"

#include <string>

namespace kvd {
namespace {

constexpr std::uint64_t RoundToPage(std::uint64_t bytes) {
  return (bytes + layout::kMapPageBytes - 1) / layout::kMapPageBytes * layout::kMapPageBytes;
}

constexpr std::uint32_t ShardsFor(std::uint32_t entries, std::uint32_t per_shard) {
  return (entries + per_shard - 1) / per_shard;
}

Status CheckCount(const char* field, std::uint32_t count, std::uint32_t max) {
  if (count >= 1 && count <= max) return {};
  return Fail(Code::kInvalidArgument, "map.", field, ": ", count, ", 1 to ", max, " wanted");
}

}  // namespace

std::uint32_t MapEntries(MapSection part) {
  switch (part) {
    case MapSection::kTotals: return 1;
    case MapSection::kSessions: return layout::kMapPageBytes / sizeof(layout::MapSession);
    case MapSection::kBlocks: return layout::kMapPageBytes / sizeof(layout::MapBlock);
    case MapSection::kSequences: return layout::kMapPageBytes / sizeof(layout::MapSequence);
  }
  return 1;
}

std::uint32_t MapGeometry::ShardCount(MapSection part) const {
  switch (part) {
    case MapSection::kTotals: return 1;
    case MapSection::kSessions: return ShardsFor(session_capacity, MapEntries(part));
    case MapSection::kBlocks: return ShardsFor(block_count, MapEntries(part));
    case MapSection::kSequences: return ShardsFor(sequence_capacity, MapEntries(part));
  }
  return 0;
}

std::uint32_t MapGeometry::FirstShard(MapSection part) const {
  std::uint32_t first = 0;
  for (const MapSection before :
       {MapSection::kTotals, MapSection::kSessions, MapSection::kBlocks}) {
    if (before == part) break;
    first += ShardCount(before);
  }
  return first;
}

std::uint32_t MapGeometry::shard_count() const {
  return FirstShard(MapSection::kSequences) + ShardCount(MapSection::kSequences);
}

std::uint64_t MapGeometry::shards_offset() const {
  return layout::kMapPageBytes +
         RoundToPage(std::uint64_t{shard_count()} * sizeof(std::atomic<std::uint64_t>));
}

std::uint64_t MapGeometry::total_bytes() const {
  return shards_offset() + std::uint64_t{shard_count()} * layout::kMapPageBytes;
}

Status ValidateMapGeometry(const MapGeometry& geometry) {
  KVD_CHECK_OK(CheckCount("block_count", geometry.block_count, 1u << 26));
  KVD_CHECK_OK(CheckCount("sequence_capacity", geometry.sequence_capacity, 1u << 20));
  return CheckCount("session_capacity", geometry.session_capacity, 1u << 20);
}

}  // namespace kvd
