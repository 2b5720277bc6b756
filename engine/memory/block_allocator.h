// BlockAllocator: tracks which blocks of one block group can be allocated. In addition to the
// references of committed lists (BlockTable), the allocator tracks state that only this process
// has: cells reserved by a step, a restore or a rewrite, cells kept by holds, and unreferenced
// blocks that a running step, rewrite or defragmentation may still read.
//
// A block is free if no list refers to it, no reservation and no hold keeps it, and it is not in
// limbo. A block is in limbo if it lost its last reference while a reader was active; such a block
// becomes free when the last reader ends. Readers are steps, rewrites and defragmentations; several
// may be active at once. Between its calls of BeginRead and EndRead, a reader reads the blocks of
// extents that it has copied, without the lock.
//
// At most one reservation at a time covers cells of a block. The reserved cells begin at the
// block's fill, which is the end of its last used cell.
//
// BlockAllocator is not thread-safe. Taking and freeing blocks updates the pool's use counts; the
// caller reserves the bytes of a block with EnsureReserved, outside of the memory's lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/memory/block_table.h"
#include "engine/memory/free_set.h"
#include "engine/memory/left_items.h"
#include "engine/memory/pool_segment.h"

namespace kvd {

class BlockAllocator {
 public:
  // Block 0 lies at pool_offset. block_stride_bytes 0: the blocks have no bytes in the pool.
  BlockAllocator(std::uint32_t block_count, std::uint64_t pool_offset,
                 std::uint64_t block_stride_bytes, PoolSegment* pool)
      : free_(block_count),
        reserved_end_(block_count),
        held_end_(block_count),
        held_(block_count),
        pool_offset_(pool_offset),
        block_stride_bytes_(block_stride_bytes),
        pool_(pool) {}

  std::uint32_t free_blocks() const { return free_.free_count(); }
  bool is_free(std::uint32_t block) const { return free_.is_free(block); }
  // The end of the block's last used cell, including reserved and held cells.
  std::uint32_t fill(std::uint32_t block, const BlockTable& table) const {
    return std::max<std::uint32_t>({table.fill(block), reserved_end_[block], held_end_[block]});
  }
  bool is_reserved(std::uint32_t block) const { return reserved_end_[block] != 0; }
  // The number of free blocks with a lower number than `block`.
  std::uint32_t CountFreeBelow(std::uint32_t block) const;
  // The block's bytes in the pool.
  std::byte* bytes(std::uint32_t block) const { return pool_->data() + OffsetOf(block); }
  // Makes the block's bytes safe to write. Errors: kNoSpace, kIo. Called outside of the memory's
  // lock.
  Status EnsureReserved(std::uint32_t block) const {
    if (block_stride_bytes_ == 0) return {};
    return pool_->EnsureReserved(OffsetOf(block), block_stride_bytes_);
  }

  // Marks the blocks that the table refers to as taken; called after attaching to an existing
  // memory. REQUIRES: all blocks are free.
  void Adopt(const BlockTable& table);

  void BeginRead() { ++readers_; }
  // Ends one reader. When the last active reader ends, the blocks in limbo become free.
  void EndRead();

  // Takes the lowest free block and reserves its cells up to `end`. REQUIRES: free_blocks() > 0.
  std::uint32_t ReserveFresh(std::uint32_t end);
  // Reserves the tail of a used block up to cell `end`. REQUIRES: the block is not reserved; a
  // reader is active.
  void ReserveTail(std::uint32_t block, std::uint32_t end);
  // Ends the block's reservation, whether or not its cells were committed.
  void Release(std::uint32_t block, const BlockTable& table);
  // Keeps the cells before `end` unchanged even if no list refers to them any more. The block
  // counts for `owner` once no list refers to it (LeftItems). REQUIRES: a list refers to the block
  // at the time of the call, to cells up to `end`.
  void Hold(std::uint32_t block, std::uint32_t end, OwnerId owner);
  // Ends one hold of the block. While the block has other holds, its fill is at least the largest
  // `end` of all its holds, including the holds that have ended.
  void EndHold(std::uint32_t block, const BlockTable& table);
  // Called when no list refers to the block any more: frees the block, unless a reservation, a hold
  // or a reader keeps the block.
  void Unreferenced(std::uint32_t block);
  // The blocks that holds keep and that no list refers to.
  const LeftItems& left() const { return held_; }

 private:
  void Free(std::uint32_t block);
  std::uint64_t OffsetOf(std::uint32_t block) const {
    return pool_offset_ + block * block_stride_bytes_;
  }

  FreeSet free_;
  std::vector<std::uint8_t> reserved_end_;  // by block: end of the reserved cells, 0 for none
  std::vector<std::uint8_t> held_end_;      // by block: end of the held cells, 0 for none
  LeftItems held_;                          // by block
  std::vector<std::uint32_t> limbo_;
  std::uint64_t pool_offset_;
  std::uint64_t block_stride_bytes_;
  PoolSegment* pool_;
  std::uint32_t readers_ = 0;
};

}  // namespace kvd
