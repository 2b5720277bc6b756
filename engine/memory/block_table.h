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
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "engine/memory/extents.h"
#include "engine/memory/owned_items.h"
#include "engine/memory/owner.h"
#include "shm/segment_layout.h"

namespace kvd {

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

}  // namespace kvd
