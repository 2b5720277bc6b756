// An input of map_fuzz: a byte that chooses the segment, a byte of bits, then operations: a byte,
// then the operands named here.
#pragma once

#include <cstdint>

namespace kvd::test {

enum class MapSegment : std::uint8_t {
  kSmall,     // one block, one sequence, one session
  kTwoEach,   // two shards of each
  kShort,     // shorter than a header
  kUnsealed,  // kSmall without seals
};
inline constexpr unsigned kMapSegments = 4;

enum MapBits : std::uint8_t {
  kMapWriterLives = 1u << 0,  // holds its lock
};

enum class MapOp : std::uint8_t {
  kHeaderBytes,   // u8 offset in the header, u8 how many, the bytes
  kLock,          // u8 number of the shard, u64 its lock
  kShardBytes,    // u8 number of the shard, u16 offset in it, u8 how many, the bytes
  kPublish,       // the same, as the daemon writes: between two changes of the lock
  kBetweenLoads,  // u16 loads from now, u32 number of a word of the segment, u64 its value
  kOpen,          // the client opens it anew
  kRefresh,
};
inline constexpr unsigned kMapOps = 7;

}  // namespace kvd::test
