// BlockAllocator: which blocks may be handed out. Beside what lists refer to (BlockTable) it knows
// what only this process knows: cells reserved by the step in progress, and blocks that the step
// may still read.
//
// A block is free if no list refers to it, no reservation and no hold keeps it and it is not in
// limbo. While
// somebody reads (BeginRead to EndRead: a step, a rewind; several may) blocks that lose their last
// holder go to limbo: a reader reads its snapshot of extents without the lock.
//
// At most one reservation holds a block at a time: it begins where the block is filled and nothing
// else ends there.
//
// Not thread-safe. Takes the pool's use counts along; reserving the pool's bytes is the caller's,
// outside of its lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/memory/block_table.h"
#include "engine/memory/free_set.h"
#include "engine/memory/pool_segment.h"

namespace kvd {

class BlockAllocator {
 public:
  // Block 0 lies at pool_offset; a stride of 0: the blocks have no bytes.
  BlockAllocator(std::uint32_t block_count, std::uint64_t pool_offset,
                 std::uint64_t block_stride_bytes, PoolSegment* pool)
      : free_(block_count),
        reserved_end_(block_count),
        holds_(block_count),
        pool_offset_(pool_offset),
        block_stride_bytes_(block_stride_bytes),
        pool_(pool) {}

  std::uint32_t free_blocks() const { return free_.free_count(); }
  bool is_free(std::uint32_t block) const { return free_.is_free(block); }
  // How far the block is filled, reservations and holds included.
  std::uint32_t fill(std::uint32_t block, const BlockTable& table) const {
    return std::max<std::uint32_t>({table.fill(block), reserved_end_[block], holds_[block].end});
  }
  bool is_reserved(std::uint32_t block) const { return reserved_end_[block] != 0; }
  // Of the blocks in front of this one.
  std::uint32_t CountFreeBelow(std::uint32_t block) const;
  // The block's bytes in the pool.
  std::byte* bytes(std::uint32_t block) const { return pool_->data() + OffsetOf(block); }
  // Makes them safe to write. Errors: kNoSpace, kIo. Outside of the memory's lock.
  Status EnsureReserved(std::uint32_t block) const {
    if (block_stride_bytes_ == 0) return {};
    return pool_->EnsureReserved(OffsetOf(block), block_stride_bytes_);
  }

  // After attaching: takes the blocks that the table refers to. REQUIRES: all are free.
  void Adopt(const BlockTable& table);

  void BeginRead() { ++readers_; }
  // With the last reader, what is in limbo becomes free.
  void EndRead();

  // The lowest free block, now reserved up to cell `end`. REQUIRES: free_blocks() > 0.
  std::uint32_t ReserveFresh(std::uint32_t end);
  // Reserves the tail of a used block up to cell `end`. REQUIRES: the block is not reserved.
  void ReserveTail(std::uint32_t block, std::uint32_t end);
  // Ends the block's reservation, whether its cells were committed or not.
  void Release(std::uint32_t block, const BlockTable& table);
  // Keeps the cells before `end` as they are, whether lists refer to them or not. REQUIRES: a list
  // does now, to cells up to `end`.
  void Hold(std::uint32_t block, std::uint32_t end);
  // Ends one hold. While others are left the block stays filled up to the furthest of all of them.
  void EndHold(std::uint32_t block, const BlockTable& table);
  // Nothing refers to the block any more.
  void Unreferenced(std::uint32_t block);

 private:
  void Free(std::uint32_t block);
  std::uint64_t OffsetOf(std::uint32_t block) const {
    return pool_offset_ + block * block_stride_bytes_;
  }

  struct Holds {
    std::uint32_t count = 0;
    std::uint8_t end = 0;
  };

  FreeSet free_;
  std::vector<std::uint8_t> reserved_end_;  // by block: end of the reserved cells, 0 for none
  std::vector<Holds> holds_;                // by block
  std::vector<std::uint32_t> limbo_;
  std::uint64_t pool_offset_;
  std::uint64_t block_stride_bytes_;
  PoolSegment* pool_;
  std::uint32_t readers_ = 0;
};

}  // namespace kvd
