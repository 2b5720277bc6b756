#include "engine/memory/slot_table.h"

#include "base/check.h"

namespace kvd {

void SlotTable::Account(std::uint32_t slot, std::uint32_t times) {
  if (counts_[slot][0] == 0 && counts_[slot][1] != 0) reclaimable_slots_ += times;
  if (is_checkpoint(slot)) checkpoint_slots_ += times;
  if (counts_[slot][0] != 0) held_slots_ += times;
}

void SlotTable::Count(std::uint32_t slot, SlotUse use, std::uint32_t times) {
  KVD_ASSERT(slot < counts_.size() && times > 0);
  Account(slot, ~0u);
  counts_[slot][static_cast<std::size_t>(use)] += times;
  Account(slot, 1);
}

bool SlotTable::Uncount(std::uint32_t slot, SlotUse use) {
  KVD_ASSERT(counts_[slot][static_cast<std::size_t>(use)] != 0);
  Account(slot, ~0u);
  --counts_[slot][static_cast<std::size_t>(use)];
  Account(slot, 1);
  return !is_used(slot);
}

void SlotTable::Add(std::uint32_t slot, Holder holder, std::uint32_t times) {
  Count(slot, holder.is_held ? SlotUse::kHeld : SlotUse::kEvictable, times);
  if (holder.is_held) owners_.Add(slot, holder.owner, times);
}

bool SlotTable::Drop(std::uint32_t slot, Holder holder) {
  if (holder.is_held) owners_.Drop(slot, holder.owner);
  return Uncount(slot, holder.is_held ? SlotUse::kHeld : SlotUse::kEvictable);
}

void SlotTable::AddCheckpoint(std::uint32_t slot, Holder holder, std::uint32_t times) {
  Count(slot, SlotUse::kCheckpoint, times);
  if (holder.is_held) checkpoint_owners_.Add(slot, holder.owner, times);
}

bool SlotTable::DropCheckpoint(std::uint32_t slot, Holder holder) {
  if (holder.is_held) checkpoint_owners_.Drop(slot, holder.owner);
  return Uncount(slot, SlotUse::kCheckpoint);
}

void SlotAllocator::Adopt(const SlotTable& table) {
  for (std::uint32_t slot = 0; slot < free_.capacity(); ++slot) {
    if (!table.is_used(slot)) continue;
    free_.Take(slot);
    pool_->AddUse(slot * slot_bytes_, slot_bytes_);
  }
}

std::uint32_t SlotAllocator::TakePinned() {
  KVD_ASSERT(free_.free_count() > 0);
  const std::uint32_t slot = *free_.TakeLowest();
  pool_->AddUse(slot * slot_bytes_, slot_bytes_);
  pins_[slot] = 1;
  return slot;
}

void SlotAllocator::Pin(std::uint32_t slot) {
  if (slot == layout::kNoSlot) return;
  KVD_ASSERT(!free_.is_free(slot));
  ++pins_[slot];
}

void SlotAllocator::Unpin(std::uint32_t slot, const SlotTable& table) {
  if (slot == layout::kNoSlot) return;
  KVD_ASSERT(pins_[slot] != 0);
  if (--pins_[slot] == 0 && !table.is_used(slot)) Free(slot);
}

void SlotAllocator::Hold(std::uint32_t slot, OwnerId owner) {
  if (slot == layout::kNoSlot) return;
  Pin(slot);
  held_.BeginRead(slot, owner);
}

void SlotAllocator::EndHold(std::uint32_t slot, const SlotTable& table) {
  if (slot == layout::kNoSlot) return;
  held_.EndRead(slot);
  Unpin(slot, table);
}

void SlotAllocator::Unreferenced(std::uint32_t slot) {
  if (pins_[slot] == 0) return Free(slot);
  held_.Leave(slot);
}

void SlotAllocator::Free(std::uint32_t slot) {
  free_.Give(slot);
  pool_->DropUse(slot * slot_bytes_, slot_bytes_);
}

}  // namespace kvd
