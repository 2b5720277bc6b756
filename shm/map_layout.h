// The segment of the live map of the pool: its layout, and the geometry of its parts.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "base/error.h"

// The layout of the live map of the pool, as plain structs (rules: shm/segment_layout.h).
//
// The daemon writes one map per uid that asks for it. A map holds no tokens, and no names except
// those of the viewer's own clients. A lock is odd while its shard is being written, and 0 until
// the shard is first written. The daemon holds an
// open-file-description lock (F_OFD) on the memfd; the kernel releases it when the daemon exits or
// is killed.
//
//   0              MapHeader                    one page
//   kMapPageBytes  std::atomic<u64> locks[]     one per shard, rounded up to pages
//   then           shards of kMapPageBytes:
//     1            MapTotals
//     sessions     MapSession[64] each          sessions of the viewer's uid, oldest first
//     blocks       MapBlock[512] each           by block of group 0
//     sequences    MapSequence[64] each         by index of the handle; visible to the viewer

namespace kvd::layout {

inline constexpr std::uint64_t kMapMagic = 0x3150414d5f44564bull;  // "KVD_MAP1"
inline constexpr std::uint32_t kMapVersion = 1;
inline constexpr std::uint32_t kMapPageBytes = 4096;

struct MapHeader {
  std::uint64_t magic;  // kMapMagic
  std::uint32_t version;
  std::uint32_t header_bytes;  // sizeof(MapHeader)
  std::uint64_t total_bytes;   // of the segment
  std::uint64_t created_unix_ms;
  std::uint32_t daemon_pid;
  std::uint32_t viewer_uid;
  std::uint32_t block_count;
  std::uint32_t sequence_capacity;
  std::uint32_t session_capacity;
  std::uint32_t reserved;
  // 1: the daemon has stopped and writes the map no more.
  alignas(64) std::atomic<std::uint64_t> is_over;
};
static_assert(std::is_standard_layout_v<MapHeader> && sizeof(MapHeader) == 128);

struct MapTotals {     // the totals are sums over all uids
  std::uint64_t pass;  // number of completed publications; 0: the first publication is not complete
  std::uint64_t published_ms;  // monotonic clock
  std::uint64_t live_cells;
  std::uint64_t tokens_computed;
  std::uint64_t tokens_sampled;
  std::uint64_t steps;
  std::uint32_t total_blocks;
  std::uint32_t free_blocks;
  std::uint32_t reclaimable_blocks;
  std::uint32_t live_sequences;
  std::uint32_t sequence_capacity;
  std::uint32_t sessions;
  std::uint32_t state_slots;
  std::uint32_t free_state_slots;
  std::uint32_t checkpoint_slots;
  std::uint32_t logits_rows;
  std::uint32_t free_logits_rows;
  std::uint32_t reserved;
  friend bool operator==(const MapTotals&, const MapTotals&) = default;
};
static_assert(sizeof(MapTotals) == 96);

struct MapSession {
  std::uint64_t session;  // 0: none
  std::uint32_t uid;
  std::uint32_t pid;
  std::uint64_t tokens_computed;
  std::uint64_t tokens_sampled;
  // The client's name from its hello, printable ASCII, padded with zero bytes.
  char client_name[32];
};
static_assert(sizeof(MapSession) == 64);

struct MapBlock {
  // Index + 1 of the first sequence in the block that the viewer may see; 0: the viewer may see no
  // sequence in the block.
  std::uint32_t sequence;
  std::uint8_t used_cells;  // number of cells of the block to which sequences of this map refer
  // Cells of the block to which sequences of this map refer at least twice.
  std::uint8_t shared_cells;
  std::uint16_t reserved;
};
static_assert(sizeof(MapBlock) == 8);

struct MapSequence {
  std::uint64_t handle;  // 0: none
  std::uint64_t session;
  std::uint32_t owner_uid;
  std::uint32_t flags;  // SequenceFlags
  std::uint32_t cell_count;
  std::uint32_t shared_cells;
  std::uint32_t checkpoint_count;
  std::int32_t next_pos;
  std::uint64_t reserved[3];
};
static_assert(sizeof(MapSequence) == 64);

}  // namespace kvd::layout

namespace kvd {

enum class MapSection : std::uint8_t { kTotals, kSessions, kBlocks, kSequences };

// MapGeometry: the size of a `map` segment, and the shards of its parts.
//
// MapGeometry is a value. The daemon computes the geometry; the client reads it from the segment's
// header once and validates it.
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
