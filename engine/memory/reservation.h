// Reservation: resources of a memory that are taken before a commit: cells of blocks, slots of
// recurrent state and logits, and a part of the owner's share. Each part of a step, each rewind,
// restore and rewrite, and each slice of a defragmentation has one reservation. No committed record
// refers to reserved resources, so a killed process leaves nothing to clean up.
//
// A reservation is move-only. When a reservation ends, it gives back those resources that no
// committed record refers to. The store must outlive the reservation. Threads: under the store's
// mutex, except for End, the destructor and assignment, which lock the mutex.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/memory/shares.h"
#include "shm/segment_layout.h"

namespace kvd {

struct MemoryStore;

class Reservation {
 public:
  Reservation() = default;  // not open
  explicit Reservation(MemoryStore& store) : store_(&store) {}
  Reservation(Reservation&& other) noexcept { *this = std::move(other); }
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { End(); }

  // Opens a reservation that is not open, for instance again after GiveBack; its vectors keep their
  // capacity.
  void Open(MemoryStore& store);
  bool is_open() const { return store_ != nullptr; }

  // ---- REQUIRES, for the following functions except End: the reservation is open. Counts blocks
  // and state slots for an owner. Errors: kNoSpace (the owner's limits).
  Status Count(const PendingUse& use);
  // Stops counting the resources that Count has counted; called just before a commit that counts
  // the same resources.
  void Uncount();
  // Takes the lowest free block and reserves its cells up to `end`. REQUIRES: a block is free; the
  // growth mutex is held.
  std::uint32_t TakeBlock(std::uint32_t group, std::uint32_t end);
  // Reserves the cells of a used block from its fill up to cell `end`.
  void TakeTail(std::uint32_t group, std::uint32_t block, std::uint32_t end);
  // Takes the lowest free slot. REQUIRES: a slot is free.
  std::uint32_t TakeState();
  std::uint32_t TakeLogits();
  // Keeps the content of the slot even if nothing else refers to it any more. kNoSlot: no effect.
  void KeepState(std::uint32_t slot);
  // Prevents defragmentation until the reservation ends, because the code that owns the reservation
  // has copies of lists that a defragmentation would not rewrite.
  void PauseDefragmentation();
  // The taken blocks in the order of taking, tails included.
  const std::vector<std::uint32_t>& blocks(std::uint32_t group) const { return blocks_[group]; }

  // Gives back all resources of the reservation that no committed record refers to, and closes it.
  void GiveBack();
  // Locks the mutex, calls GiveBack, and returns unused slabs to the system. End has no effect if
  // the reservation is not open.
  void End();

 private:
  MemoryStore* store_ = nullptr;                                       // null: not open
  std::array<std::vector<std::uint32_t>, layout::kGroupsMax> blocks_;  // by group
  std::vector<std::uint32_t> states_;                                  // pinned
  std::vector<std::uint32_t> logits_;                                  // pinned
  PendingUse use_;
  bool pauses_defragmentation_ = false;
};

}  // namespace kvd
