// The blocks of one block group: the references to each of them, and which can be allocated.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "engine/memory/extents.h"
#include "engine/memory/item_sets.h"
#include "engine/memory/owner.h"
#include "engine/memory/pool_segment.h"
#include "shm/segment_layout.h"

namespace kvd {

// BlockTable: counts the references from the committed lists of one block group to each block and
// cell. The table is derived from the lists alone.
//
// Most extents cover a whole block. References by extents of a whole block are counted in 16 bytes
// per block; a fork of an extent of a whole block changes only the 16 bytes. Extents that cover a
// part of a block are counted cell by cell in a side table, which has entries only for blocks with
// such extents. Together, the two counts determine exactly which cells are live, how far a block is
// filled, and which blocks only lists of evictable sequences refer to.
//
// BlockTable is not thread-safe. The table does not contain reservations or the reads of a running
// step, which BlockAllocator tracks.
class BlockTable {
 public:
  BlockTable() = default;
  explicit BlockTable(std::uint32_t block_count);

  // Adds the references of `times` lists, all equal to `view`, to the counts.
  void AddList(ExtentView view, Holder holder, std::uint32_t times = 1);
  // Removes one list from the counts and appends the blocks that lose their last reference to
  // `freed`. REQUIRES: the list was counted.
  void DropList(ExtentView view, Holder holder, std::vector<std::uint32_t>* freed);
  void Add(BlockRange range, Holder holder, std::uint32_t times = 1);
  void Drop(BlockRange range, Holder holder, std::vector<std::uint32_t>* freed);

  std::uint32_t block_count() const { return static_cast<std::uint32_t>(full_.size()); }
  bool is_used(std::uint32_t block) const { return StateOf(block).is_used; }
  // Bit k is set if a list refers to cell k.
  std::uint32_t live_mask(std::uint32_t block) const { return StateOf(block).live_mask; }
  // The largest end of any reference to the block; 0: there is no reference.
  std::uint32_t fill(std::uint32_t block) const {
    return 32u - static_cast<std::uint32_t>(std::countl_zero(live_mask(block)));
  }
  // The number of references to one cell.
  std::uint32_t references(std::uint32_t block, std::uint32_t cell) const;
  // How many of the range's cells have more than one reference.
  std::uint32_t CountShared(BlockRange range) const;

  std::uint64_t live_cells() const { return live_cells_; }
  std::uint32_t used_blocks() const { return used_blocks_; }
  std::uint32_t reclaimable_blocks() const { return reclaimable_blocks_; }
  // The owners whose held lists refer to the block, sorted. Empty: the block is reclaimable or
  // unused.
  void ListOwners(std::uint32_t block, std::vector<OwnerId>* owners) const;
  // The number of blocks that held lists of `owner` refer to.
  std::uint64_t CountOwned(OwnerId owner) const {
    const auto count = owned_.find(owner);
    return count == owned_.end() ? 0 : count->second;
  }

  friend bool operator==(const BlockTable& a, const BlockTable& b);

 private:
  struct FullCounts {  // references by extents that cover the whole block
    std::uint32_t by_holder[2] = {};
    // The owner of all held references to the block; kNoOwner: there are none; kSeveral: there are
    // several owners.
    OwnerId owner = kNoOwner;
    friend bool operator==(const FullCounts&, const FullCounts&) = default;
  };
  struct PartialCounts {  // references by extents that cover a part of the block
    std::array<std::uint32_t, layout::kBlockCells> cells = {};
    std::array<std::uint32_t, 2> by_holder = {};
    std::uint32_t live_mask = 0;
    friend bool operator==(const PartialCounts&, const PartialCounts&) = default;
  };
  struct BlockState {
    std::uint32_t live_mask = 0;
    bool is_used = false;
    bool is_reclaimable = false;
  };
  static constexpr OwnerId kSeveral{~std::uint64_t{0} - 1};
  static_assert(sizeof(FullCounts) == 16 && layout::kBlockCells == 32);

  BlockState StateOf(std::uint32_t block) const;
  void Account(BlockState before, BlockState after);
  std::uint32_t CountHeld(std::uint32_t block) const {
    return full_[block].by_holder[0] + partials_[partial_slot_[block]].by_holder[0];
  }
  // Returns whether `holder` can add or drop a reference to a block by changing only the block's
  // reference count `count`, without changing which owners the block is charged to.
  static bool IsFast(const FullCounts& full, std::uint32_t count, std::uint32_t count_min,
                     Holder holder) {
    return count >= count_min && (!holder.is_held || full.owner == holder.owner);
  }
  // Adds `times` to the reference count of each entry's block if only this count changes; calls
  // slow(range) for the other entries.
  template <bool kIsHeld, class Slow>
  void CountList(ExtentView view, OwnerId owner, std::uint32_t count_min, std::uint32_t times,
                 const Slow& slow);
  template <class Slow>
  void CountList(ExtentView view, Holder holder, std::uint32_t count_min, std::uint32_t times,
                 const Slow& slow);
  void AddOwner(std::uint32_t block, OwnerId owner, std::uint32_t times, std::uint32_t held_before);
  // REQUIRES: the dropped reference has been removed from the counts.
  void DropOwner(std::uint32_t block, OwnerId owner);
  void AddSlow(BlockRange range, Holder holder, std::uint32_t times);
  void DropSlow(BlockRange range, Holder holder, std::vector<std::uint32_t>* freed);

  std::vector<FullCounts> full_;             // by block
  std::vector<std::uint32_t> partial_slot_;  // by block: index into partials_; 0: none
  std::vector<PartialCounts> partials_;      // [0] is always zero
  std::vector<std::uint32_t> free_partials_;
  OwnedItems several_;  // blocks with several owners: how many references each owner has
  std::map<OwnerId, std::uint64_t> owned_;  // number of blocks by owner; no entry is 0
  std::uint64_t live_cells_ = 0;
  std::uint32_t used_blocks_ = 0;
  std::uint32_t reclaimable_blocks_ = 0;
};

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
class BlockAllocator {
 public:
  // `pool`: the group's part of the pool. block_stride_bytes 0: the blocks have no bytes.
  BlockAllocator(std::uint32_t block_count, std::uint64_t block_stride_bytes, PoolSegment* pool)
      : free_(block_count),
        reserved_end_(block_count),
        held_end_(block_count),
        held_(block_count),
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
  std::uint64_t OffsetOf(std::uint32_t block) const { return block * block_stride_bytes_; }

  FreeSet free_;
  std::vector<std::uint8_t> reserved_end_;  // by block: end of the reserved cells, 0 for none
  std::vector<std::uint8_t> held_end_;      // by block: end of the held cells, 0 for none
  LeftItems held_;                          // by block
  std::vector<std::uint32_t> limbo_;
  std::uint64_t block_stride_bytes_;
  PoolSegment* pool_;
  std::uint32_t readers_ = 0;
};

}  // namespace kvd
