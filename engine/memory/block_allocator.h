// BlockAllocator: which blocks may be handed out. Beside what lists refer to (BlockTable) it knows
// what only this process knows: cells reserved by the step in progress, and blocks that the step
// may still read.
//
// A block is free if no list refers to it, no reservation holds it and it is not in limbo. While a
// step runs (BeginStep to EndStep) blocks that lose their last holder go to limbo: the step reads
// its snapshot of extents without the lock.
//
// At most one reservation holds a block at a time: it begins where the block is filled and nothing
// else ends there.
//
// State slots and rows of logits are handed out by allocators of their own: each is a block whose
// only piece is all of it.
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
  // The blocks lie in the pool from base_offset on; a stride of 0: they have no bytes there.
  BlockAllocator(std::uint32_t block_count, std::uint64_t base_offset,
                 std::uint64_t block_stride_bytes, PoolSegment* pool)
      : free_(block_count),
        reserved_end_(block_count),
        base_offset_(base_offset),
        block_stride_bytes_(block_stride_bytes),
        pool_(pool) {}

  std::uint32_t free_blocks() const { return free_.free_count(); }
  bool is_free(std::uint32_t block) const { return free_.is_free(block); }
  // How far the block is filled, reservations included.
  std::uint32_t fill(std::uint32_t block, const BlockTable& table) const {
    return std::max<std::uint32_t>(table.fill(block), reserved_end_[block]);
  }
  bool is_reserved(std::uint32_t block) const { return reserved_end_[block] != 0; }
  // Of the blocks in front of this one.
  std::uint32_t CountFreeBelow(std::uint32_t block) const;
  bool step_is_running() const { return step_is_running_; }

  void BeginStep();
  // What is in limbo becomes free. REQUIRES: no reservation is left.
  void EndStep();

  // The lowest free block, now reserved up to cell `end`. REQUIRES: a step is running,
  // free_blocks() > 0.
  std::uint32_t ReserveFresh(std::uint32_t end);
  // Reserves the tail of a used block up to cell `end`. REQUIRES: the block is not reserved.
  void ReserveTail(std::uint32_t block, std::uint32_t end);
  // Ends the block's reservation, whether its cells were committed or not.
  void Release(std::uint32_t block, const BlockTable& table);
  // Nothing refers to the block any more.
  void Unreferenced(std::uint32_t block);

  // A free block that stays taken across steps until LetGo, whatever the table says of it.
  // REQUIRES: free_blocks() > 0.
  std::uint32_t Hold();
  void LetGo(std::uint32_t block, const BlockTable& table);

  // Offset of the block's bytes in the pool.
  std::uint64_t OffsetOf(std::uint32_t block) const {
    return base_offset_ + block * block_stride_bytes_;
  }
  std::uint64_t block_stride_bytes() const { return block_stride_bytes_; }

 private:
  void AddUse(std::uint32_t block);
  void Free(std::uint32_t block);

  FreeSet free_;
  std::vector<std::uint8_t> reserved_end_;  // by block: end of the reserved cells, 0 for none
  std::vector<std::uint32_t> limbo_;
  std::uint64_t base_offset_;
  std::uint64_t block_stride_bytes_;
  PoolSegment* pool_;
  std::uint32_t reserved_blocks_ = 0;
  bool step_is_running_ = false;
};

}  // namespace kvd
