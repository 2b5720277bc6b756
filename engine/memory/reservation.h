// Reservation: what an undertaking holds of a memory before its commit: cells of blocks, slots of
// recurrent state and logits, and a part of its owner's share. The part of a step, a rewind, a
// restore, a rewrite and a slice of a defragmentation have one each. Nothing committed refers to
// what is reserved, so a killed process leaves nothing behind.
//
// Move-only. What is left is given back at the end; what a commit refers to by then stays used. The
// store outlives it. Threads: under the store's mutex, but for End, the destructor and assignment,
// which take it.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/memory/shares.h"
#include "shm/error.h"
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

  // Opens it again after GiveBack; its vectors keep their room.
  void Open(MemoryStore& store);
  bool is_open() const { return store_ != nullptr; }

  // ---- REQUIRES: it is open.
  // Counts blocks and state slots for an owner. Errors: kNoSpace (its limits).
  Status Count(const PendingUse& use);
  // The commit that follows counts them.
  void Uncount();
  // The lowest free block, up to cell `end`. REQUIRES: one is free, the growth mutex is held.
  std::uint32_t TakeBlock(std::uint32_t group, std::uint32_t end);
  // The cells of a used block behind those in use, up to cell `end`.
  void TakeTail(std::uint32_t group, std::uint32_t block, std::uint32_t end);
  // The lowest free slot. REQUIRES: one is free.
  std::uint32_t TakeState();
  std::uint32_t TakeLogits();
  // The slot stays as it is, also if nothing refers to it any more. kNoSlot: nothing to keep.
  void KeepState(std::uint32_t slot);
  // No defragmentation meanwhile: there are copies of lists that it would not rewrite.
  void PauseDefragmentation();
  // Blocks that were taken, in that order, tails included.
  const std::vector<std::uint32_t>& blocks(std::uint32_t group) const { return blocks_[group]; }

  // Gives everything back. It is not open then.
  void GiveBack();
  // The same, taking the mutex, and unused bytes go back to the system. Nothing, if it is not open.
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
