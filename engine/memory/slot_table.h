// SlotTable: counts the references to each slot (of recurrent state, or of rows of logits). The
// counts are derived from the committed records and checkpoint lists alone.
//
// SlotAllocator: tracks which slots can be allocated. In addition to the references of the table,
// the allocator tracks state that only this process has: pins of slots that a step or a hold reads
// or writes. A slot is free if it has neither a reference nor a pin. A pinned slot that loses its
// last reference becomes free with its last pin.
//
// SlotTable and SlotAllocator are not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/memory/item_sets.h"
#include "engine/memory/owner.h"
#include "engine/memory/pool_segment.h"

namespace kvd {

// The kinds of references to a slot: from a held sequence, from an evictable sequence, or from a
// checkpoint of any sequence.
enum class SlotUse : std::uint8_t { kHeld, kEvictable, kCheckpoint };

class SlotTable {
 public:
  SlotTable() = default;
  explicit SlotTable(std::uint32_t slot_count)
      : counts_(slot_count), owners_(slot_count), checkpoint_owners_(slot_count) {}

  // REQUIRES, for the next four functions: slot < slot_count(), times > 0. Drop and DropCheckpoint
  // return true if nothing refers to the slot any more. REQUIRES, for Drop and DropCheckpoint: the
  // reference was counted.
  void Add(std::uint32_t slot, Holder holder, std::uint32_t times = 1);
  bool Drop(std::uint32_t slot, Holder holder);
  void AddCheckpoint(std::uint32_t slot, Holder holder, std::uint32_t times = 1);
  bool DropCheckpoint(std::uint32_t slot, Holder holder);

  std::uint32_t slot_count() const { return static_cast<std::uint32_t>(counts_.size()); }
  bool is_used(std::uint32_t slot) const { return !(counts_[slot] == Counts{}); }
  bool is_checkpoint(std::uint32_t slot) const { return counts_[slot][2] != 0; }
  bool is_checkpoint_only(std::uint32_t slot) const {
    return is_checkpoint(slot) && (counts_[slot][0] | counts_[slot][1]) == 0;
  }
  // reclaimable_slots: the number of slots that evictable sequences refer to and held sequences do
  // not. checkpoint_slots: the number of slots that a checkpoint refers to. held_slots: the number
  // of slots that a held sequence refers to.
  std::uint32_t reclaimable_slots() const { return reclaimable_slots_; }
  std::uint32_t checkpoint_slots() const { return checkpoint_slots_; }
  std::uint32_t held_slots() const { return held_slots_; }
  // The number of references of held sequences to one slot.
  std::uint32_t CountHeld(std::uint32_t slot) const { return counts_[slot][0]; }
  // CountOwned: the number of slots that the owner's held sequences refer to.
  // CountOwnedCheckpoints: the number of slots that checkpoints of the owner's held sequences refer
  // to.
  std::uint64_t CountOwned(OwnerId owner) const { return owners_.CountOf(owner); }
  std::uint64_t CountOwnedCheckpoints(OwnerId owner) const {
    return checkpoint_owners_.CountOf(owner);
  }
  bool IsOwned(std::uint32_t slot, OwnerId owner) const { return owners_.Refers(slot, owner); }
  bool IsOwnedCheckpoint(std::uint32_t slot, OwnerId owner) const {
    return checkpoint_owners_.Refers(slot, owner);
  }

  friend bool operator==(const SlotTable&, const SlotTable&) = default;

 private:
  using Counts = std::array<std::uint32_t, 3>;

  void Count(std::uint32_t slot, SlotUse use, std::uint32_t times);
  bool Uncount(std::uint32_t slot, SlotUse use);
  // Adds the slot to the totals (times 1) or removes it from them (times -1, unsigned).
  void Account(std::uint32_t slot, std::uint32_t times);

  std::vector<Counts> counts_;  // by slot, by use
  OwnedItems owners_;
  OwnedItems checkpoint_owners_;
  std::uint32_t reclaimable_slots_ = 0;
  std::uint32_t checkpoint_slots_ = 0;
  std::uint32_t held_slots_ = 0;
};

class SlotAllocator {
 public:
  // `pool`: the slots' part of the pool.
  SlotAllocator(std::uint32_t slot_count, std::uint64_t slot_bytes, PoolSegment* pool)
      : free_(slot_count),
        pins_(slot_count),
        held_(slot_count),
        slot_bytes_(slot_bytes),
        pool_(pool) {}

  std::uint32_t free_slots() const { return free_.free_count(); }
  bool is_free(std::uint32_t slot) const { return free_.is_free(slot); }
  bool is_pinned(std::uint32_t slot) const { return pins_[slot] != 0; }
  std::byte* bytes(std::uint32_t slot) const { return pool_->data() + slot * slot_bytes_; }
  // Makes the slot's bytes safe to write. Errors: kNoSpace, kIo. Called outside of the memory's
  // lock.
  Status EnsureReserved(std::uint32_t slot) const {
    return pool_->EnsureReserved(slot * slot_bytes_, slot_bytes_);
  }

  // Marks the slots that the table refers to as taken; called after attaching to an existing
  // memory. REQUIRES: all slots are free.
  void Adopt(const SlotTable& table);

  // Takes the lowest free slot and pins it. REQUIRES: free_slots() > 0.
  std::uint32_t TakePinned();
  // kNoSlot: no effect.
  void Pin(std::uint32_t slot);
  void Unpin(std::uint32_t slot, const SlotTable& table);
  // Hold and EndHold pin and unpin a slot for a hold: the slot counts for `owner` once nothing else
  // refers to it (LeftItems).
  void Hold(std::uint32_t slot, OwnerId owner);
  void EndHold(std::uint32_t slot, const SlotTable& table);
  // Called when the slot has lost its last reference: frees the slot, unless it is pinned.
  void Unreferenced(std::uint32_t slot);
  // The slots that holds keep and that have no reference.
  const LeftItems& left() const { return held_; }

 private:
  void Free(std::uint32_t slot);

  FreeSet free_;
  std::vector<std::uint32_t> pins_;  // by slot: pins of reservations and of holds
  LeftItems held_;
  std::uint64_t slot_bytes_;
  PoolSegment* pool_;
};

}  // namespace kvd
