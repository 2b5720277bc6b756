// BlockTable: which cells of which blocks the committed lists of one block group refer to. Derived
// from the lists alone.
//
// Most extents cover a whole block: those are counted in 16 bytes per block, which is all that a
// fork touches. Extents of a part of a block are counted cell by cell in a side table that exists
// only for blocks that have such extents. From both follow exactly: which cells are live, how far a
// block is filled, and which blocks are held by reclaimable lists alone.
//
// Not thread-safe. Knows neither reservations nor what a running step reads: see BlockAllocator.
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

  // Counts `times` lists that are all equal to `view`.
  void AddList(ExtentView view, Holder holder, std::uint32_t times = 1);
  // Uncounts one; blocks that nothing refers to any more are appended to `freed`. REQUIRES: it was
  // counted.
  void DropList(ExtentView view, Holder holder, std::vector<std::uint32_t>* freed);
  void Add(Piece piece, Holder holder, std::uint32_t times = 1);
  void Drop(Piece piece, Holder holder, std::vector<std::uint32_t>* freed);

  std::uint32_t block_count() const { return static_cast<std::uint32_t>(full_.size()); }
  bool is_used(std::uint32_t block) const { return StateOf(block).is_used; }
  // Bit k: cell k is referred to.
  std::uint32_t live_mask(std::uint32_t block) const { return StateOf(block).live_mask; }
  // The largest end of any reference to the block; 0 where there is none.
  std::uint32_t fill(std::uint32_t block) const {
    return 32u - static_cast<std::uint32_t>(std::countl_zero(live_mask(block)));
  }
  // References to one cell.
  std::uint32_t references(std::uint32_t block, std::uint32_t cell) const;
  // Of the piece's cells, how many have more references than one.
  std::uint32_t CountShared(Piece piece) const;

  std::uint64_t live_cells() const { return live_cells_; }
  std::uint32_t used_blocks() const { return used_blocks_; }
  std::uint32_t reclaimable_blocks() const { return reclaimable_blocks_; }
  // Owners whose held lists refer to the block, sorted; none: it is reclaimable, or not used.
  std::vector<OwnerId> OwnersOf(std::uint32_t block) const;
  // Blocks that held lists of that owner refer to.
  std::uint64_t CountOwned(OwnerId owner) const {
    const auto count = owned_.find(owner);
    return count == owned_.end() ? 0 : count->second;
  }

  friend bool operator==(const BlockTable& a, const BlockTable& b);

 private:
  struct FullCounts {  // extents that cover the whole block
    std::uint32_t by_holder[2] = {};
    // Of all held references to the block: kNoOwner, if there are none; kSeveral; or the only one.
    OwnerId owner = kNoOwner;
    friend bool operator==(const FullCounts&, const FullCounts&) = default;
  };
  struct PartialCounts {  // extents that do not
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
  // Whether a reference of that holder beside `count` others changes nothing but that count.
  static bool IsFast(const FullCounts& full, std::uint32_t count, std::uint32_t count_min,
                     Holder holder) {
    return count >= count_min && (!holder.is_held || full.owner == holder.owner);
  }
  // Adds `times` to the count of each entry for which that is all; the others go to slow(piece).
  template <bool kIsHeld, class Slow>
  void CountList(ExtentView view, OwnerId owner, std::uint32_t count_min, std::uint32_t times,
                 const Slow& slow);
  template <class Slow>
  void CountList(ExtentView view, Holder holder, std::uint32_t count_min, std::uint32_t times,
                 const Slow& slow);
  void AddOwner(std::uint32_t block, OwnerId owner, std::uint32_t times, std::uint32_t held_before);
  void DropOwner(std::uint32_t block, OwnerId owner);  // the reference is uncounted already
  void AddSlow(Piece piece, Holder holder, std::uint32_t times);
  void DropSlow(Piece piece, Holder holder, std::vector<std::uint32_t>* freed);

  std::vector<FullCounts> full_;             // by block
  std::vector<std::uint32_t> partial_slot_;  // by block: index into partials_, 0 for none
  std::vector<PartialCounts> partials_;      // [0] stays zero
  std::vector<std::uint32_t> free_partials_;
  OwnedItems several_;  // who refers to blocks with several owners, and how often
  std::map<OwnerId, std::uint64_t> owned_;  // blocks by owner, none that is 0
  std::uint64_t live_cells_ = 0;
  std::uint32_t used_blocks_ = 0;
  std::uint32_t reclaimable_blocks_ = 0;
};

}  // namespace kvd
