#include "engine/memory/reservation.h"

#include "base/check.h"
#include "engine/memory/memory_store.h"

namespace kvd {

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  End();
  store_ = std::exchange(other.store_, nullptr);
  blocks_ = std::move(other.blocks_);
  states_ = std::move(other.states_);
  logits_ = std::move(other.logits_);
  use_ = std::exchange(other.use_, {});
  pauses_defragmentation_ = std::exchange(other.pauses_defragmentation_, false);
  return *this;
}

void Reservation::Open(MemoryStore& store) {
  KVD_ASSERT(!is_open());
  store_ = &store;
}

Status Reservation::Count(const PendingUse& use) {
  use_ = use;
  Status counted = AddPending(*store_, &use_);
  if (!counted) use_ = {};
  return counted;
}

void Reservation::Uncount() { DropPending(*store_, &use_); }

std::uint32_t Reservation::TakeBlock(std::uint32_t group, std::uint32_t end) {
  store_->mutex.AssertHeld();
  return blocks_[group].emplace_back(store_->allocators[group].ReserveFresh(end));
}

void Reservation::TakeTail(std::uint32_t group, std::uint32_t block, std::uint32_t end) {
  store_->mutex.AssertHeld();
  store_->allocators[group].ReserveTail(block, end);
  blocks_[group].push_back(block);
}

std::uint32_t Reservation::TakeState() {
  store_->mutex.AssertHeld();
  return states_.emplace_back(store_->states.TakePinned());
}

std::uint32_t Reservation::TakeLogits() {
  store_->mutex.AssertHeld();
  return logits_.emplace_back(store_->logits.TakePinned());
}

void Reservation::KeepState(std::uint32_t slot) {
  store_->mutex.AssertHeld();
  if (slot == layout::kNoSlot) return;
  store_->states.Pin(slot);
  states_.push_back(slot);
}

void Reservation::PauseDefragmentation() {
  store_->mutex.AssertHeld();
  KVD_ASSERT(!pauses_defragmentation_);
  pauses_defragmentation_ = true;
  ++store_->defragmentation_pauses;
}

void Reservation::GiveBack() {
  MemoryStore& store = *store_;
  store.mutex.AssertHeld();
  for (std::uint32_t group = 0; group < store.group_count(); ++group) {
    for (const std::uint32_t block : blocks_[group]) {
      store.allocators[group].Release(block, store.tables.blocks[group]);
    }
    blocks_[group].clear();
  }
  for (const std::uint32_t slot : states_) store.states.Unpin(slot, store.tables.states);
  for (const std::uint32_t slot : logits_) store.logits.Unpin(slot, store.tables.logits);
  states_.clear();
  logits_.clear();
  DropPending(store, &use_);
  use_ = {};
  if (std::exchange(pauses_defragmentation_, false)) --store.defragmentation_pauses;
  store_ = nullptr;
}

void Reservation::End() {
  if (!is_open()) return;
  MemoryStore& store = *store_;
  {
    const MutexLock lock(store.mutex);
    GiveBack();
  }
  store.ReturnUnusedSlabs();
}

}  // namespace kvd
