// SlotTable: who refers to which slot (of recurrent state, or of last logits). Derived from the
// committed records and checkpoint lists alone.
//
// SlotAllocator: which slots may be handed out. Beside the table it knows what only this process
// knows: slots that a step reads or writes (pins). A slot is free if nothing refers to it and
// nothing pins it; it may lose its last reference while it is pinned.
//
// Neither is thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/memory/free_set.h"
#include "engine/memory/owned_items.h"
#include "engine/memory/owner.h"
#include "engine/memory/pool_segment.h"

namespace kvd {

// Who refers to a slot: a sequence somebody wants, one that may be evicted, or a checkpoint of either.
enum class SlotUse : std::uint8_t { kHeld, kEvictable, kCheckpoint };

class SlotTable {
 public:
  SlotTable() = default;
  explicit SlotTable(std::uint32_t slot_count)
      : counts_(slot_count), owners_(slot_count), checkpoint_owners_(slot_count) {}

  // REQUIRES of these: slot < slot_count(), times > 0. Drop and DropCheckpoint return true if nothing
  // refers to the slot any more; they REQUIRE that it was counted.
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
  // Slots by who refers to them: retained sequences but no held one; checkpoints; held sequences.
  std::uint32_t reclaimable_slots() const { return reclaimable_slots_; }
  std::uint32_t checkpoint_slots() const { return checkpoint_slots_; }
  std::uint32_t held_slots() const { return held_slots_; }
  // References of held sequences to one slot.
  std::uint32_t CountHeld(std::uint32_t slot) const { return counts_[slot][0]; }
  // Slots that held sequences of that owner refer to, and slots that checkpoints of such do.
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
  // Adds (1) or takes (-1, unsigned) the slot's part in the totals.
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
  SlotAllocator(std::uint32_t slot_count, std::uint64_t pool_offset, std::uint64_t slot_bytes,
                PoolSegment* pool)
      : free_(slot_count),
        pins_(slot_count),
        pool_offset_(pool_offset),
        slot_bytes_(slot_bytes),
        pool_(pool) {}

  std::uint32_t free_slots() const { return free_.free_count(); }
  bool is_free(std::uint32_t slot) const { return free_.is_free(slot); }
  bool is_pinned(std::uint32_t slot) const { return pins_[slot] != 0; }
  std::byte* bytes(std::uint32_t slot) const {
    return pool_->data() + pool_offset_ + slot * slot_bytes_;
  }
  // Makes the slot's bytes safe to write. Errors: kNoSpace, kIo. Outside of the memory's lock.
  Status EnsureReserved(std::uint32_t slot) const {
    return pool_->EnsureReserved(pool_offset_ + slot * slot_bytes_, slot_bytes_);
  }

  // After attaching: takes the slots that the table refers to. REQUIRES: all are free.
  void Adopt(const SlotTable& table);

  // The lowest free slot, pinned. REQUIRES: free_slots() > 0.
  std::uint32_t TakePinned();
  // kNoSlot is nothing to pin.
  void Pin(std::uint32_t slot);
  void Unpin(std::uint32_t slot, const SlotTable& table);
  // Nothing refers to the slot any more.
  void Unreferenced(std::uint32_t slot);

 private:
  void Free(std::uint32_t slot);

  FreeSet free_;
  std::vector<std::uint32_t> pins_;
  std::uint64_t pool_offset_;
  std::uint64_t slot_bytes_;
  PoolSegment* pool_;
};

}  // namespace kvd
