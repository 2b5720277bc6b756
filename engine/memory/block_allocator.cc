#include "engine/memory/block_allocator.h"

#include "shm/check.h"

namespace kvd {

std::uint32_t BlockAllocator::CountFreeBelow(std::uint32_t block) const {
  std::uint32_t count = 0;
  for (std::uint32_t below = 0; below < block; ++below) count += free_.is_free(below);
  return count;
}

void BlockAllocator::BeginStep() {
  KVD_ASSERT(!step_is_running_);
  step_is_running_ = true;
}

void BlockAllocator::EndStep() {
  KVD_ASSERT(step_is_running_ && reserved_blocks_ == 0);
  step_is_running_ = false;
  for (const std::uint32_t block : limbo_) Free(block);
  limbo_.clear();
}

std::uint32_t BlockAllocator::ReserveFresh(std::uint32_t end) {
  KVD_ASSERT(step_is_running_ && end > 0 && end <= layout::kBlockCells && free_.free_count() > 0);
  const std::uint32_t block = *free_.TakeLowest();
  AddUse(block);
  reserved_end_[block] = static_cast<std::uint8_t>(end);
  ++reserved_blocks_;
  return block;
}

void BlockAllocator::AddUse(std::uint32_t block) {
  if (block_stride_bytes_ != 0) pool_->AddUse(OffsetOf(block), block_stride_bytes_);
}

std::uint32_t BlockAllocator::Hold() {
  KVD_ASSERT(free_.free_count() > 0);
  const std::uint32_t block = *free_.TakeLowest();
  AddUse(block);
  return block;
}

void BlockAllocator::LetGo(std::uint32_t block, const BlockTable& table) {
  if (!table.is_used(block)) Unreferenced(block);
}

void BlockAllocator::ReserveTail(std::uint32_t block, std::uint32_t end) {
  KVD_ASSERT(step_is_running_ && end <= layout::kBlockCells && reserved_end_[block] == 0);
  reserved_end_[block] = static_cast<std::uint8_t>(end);
  ++reserved_blocks_;
}

void BlockAllocator::Release(std::uint32_t block, const BlockTable& table) {
  KVD_ASSERT(reserved_end_[block] != 0);
  reserved_end_[block] = 0;
  --reserved_blocks_;
  if (!table.is_used(block)) Unreferenced(block);
}

void BlockAllocator::Unreferenced(std::uint32_t block) {
  if (reserved_end_[block] != 0) return;  // Release comes back to it
  if (step_is_running_) {
    limbo_.push_back(block);
  } else {
    Free(block);
  }
}

void BlockAllocator::Free(std::uint32_t block) {
  free_.Give(block);
  if (block_stride_bytes_ != 0) pool_->DropUse(OffsetOf(block), block_stride_bytes_);
}

}  // namespace kvd
