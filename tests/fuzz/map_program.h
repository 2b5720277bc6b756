// An input of map_fuzz: a byte that chooses the segment, a byte of MapBits, then operations. Each
// operation is encoded as one byte, followed by the operands that its comment names.
#pragma once

#include <cstdint>

namespace kvd::test {

enum class MapSegment : std::uint8_t {
  kSmall,     // has one block, one sequence and one session
  kTwoEach,   // has two shards of blocks, of sequences and of sessions
  kShort,     // has 128 bytes, less than the header's page
  kUnsealed,  // has the size of kSmall and no seals
};
inline constexpr unsigned kMapSegments = 4;

enum MapBits : std::uint8_t {
  kMapWriterLives = 1u << 0,  // the daemon is alive: it holds the writer's file lock
};

enum class MapOp : std::uint8_t {
  kHeaderBytes,   // u8 offset in the header, u8 number of bytes, the bytes
  kLock,          // u8 shard, u64 the shard's new lock word
  kShardBytes,    // u8 shard, u16 offset in the shard, u8 number of bytes, the bytes
  kPublish,       // the operands of kShardBytes; the lock word is then increased by 2
  kBetweenLoads,  // u16 number of loads, u32 index of a word of the segment, u64 its new value
  kOpen,          // the client opens the map again
  kRefresh,
};
inline constexpr unsigned kMapOps = 7;

}  // namespace kvd::test
