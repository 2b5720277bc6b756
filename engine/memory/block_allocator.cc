#include "engine/memory/block_allocator.h"

#include "base/check.h"

namespace kvd {

std::uint32_t BlockAllocator::CountFreeBelow(std::uint32_t block) const {
  std::uint32_t count = 0;
  for (std::uint32_t below = 0; below < block; ++below) count += free_.is_free(below);
  return count;
}

void BlockAllocator::Adopt(const BlockTable& table) {
  for (std::uint32_t block = 0; block < free_.capacity(); ++block) {
    if (!table.is_used(block)) continue;
    free_.Take(block);
    if (block_stride_bytes_ != 0) pool_->AddUse(OffsetOf(block), block_stride_bytes_);
  }
}

void BlockAllocator::EndRead() {
  KVD_ASSERT(readers_ != 0);
  if (--readers_ != 0) return;
  for (const std::uint32_t block : limbo_) Free(block);
  limbo_.clear();
}

std::uint32_t BlockAllocator::ReserveFresh(std::uint32_t end) {
  KVD_ASSERT(end > 0 && end <= layout::kBlockCells && free_.free_count() > 0);
  const std::uint32_t block = *free_.TakeLowest();
  if (block_stride_bytes_ != 0) pool_->AddUse(OffsetOf(block), block_stride_bytes_);
  reserved_end_[block] = static_cast<std::uint8_t>(end);
  return block;
}

void BlockAllocator::ReserveTail(std::uint32_t block, std::uint32_t end) {
  KVD_ASSERT(readers_ != 0 && end <= layout::kBlockCells && reserved_end_[block] == 0);
  reserved_end_[block] = static_cast<std::uint8_t>(end);
}

void BlockAllocator::Release(std::uint32_t block, const BlockTable& table) {
  KVD_ASSERT(reserved_end_[block] != 0);
  reserved_end_[block] = 0;
  if (!table.is_used(block)) Unreferenced(block);
}

void BlockAllocator::Hold(std::uint32_t block, std::uint32_t end, OwnerId owner) {
  KVD_ASSERT(end > 0 && end <= layout::kBlockCells && !free_.is_free(block));
  held_.BeginRead(block, owner);
  held_end_[block] = std::max(held_end_[block], static_cast<std::uint8_t>(end));
}

void BlockAllocator::EndHold(std::uint32_t block, const BlockTable& table) {
  if (!held_.EndRead(block)) return;
  held_end_[block] = 0;
  if (!table.is_used(block)) Unreferenced(block);
}

void BlockAllocator::Unreferenced(std::uint32_t block) {
  if (reserved_end_[block] != 0) return;  // Release calls this function again
  if (held_.is_read(block)) return held_.Leave(block);
  if (readers_ != 0) {
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
