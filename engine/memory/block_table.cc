#include "engine/memory/block_table.h"

#include <utility>

#include "base/check.h"

namespace kvd {

// ---- block table
// A reference that increases a count above zero changes only that count, on a fast path. All other
// changes of references compare the block's state before and after the change, so that the totals
// always match the counts.

namespace {

constexpr std::uint32_t MaskOf(BlockRange range) {
  const std::uint32_t ones = range.count == 32 ? ~0u : (1u << range.count) - 1;
  return ones << range.first;
}

constexpr bool IsFull(BlockRange range) { return range.count == layout::kBlockCells; }

constexpr std::uint32_t kMinusOne = ~0u;
constexpr std::size_t kHeld = 0;  // index in by_holder of the references of held lists
constexpr std::size_t IndexOf(Holder holder) { return holder.is_held ? kHeld : 1; }

}  // namespace

BlockTable::BlockTable(std::uint32_t block_count)
    : full_(block_count), partial_slot_(block_count), several_(block_count) {
  // Reserves memory for the largest possible number of partials, so that only several_ may still
  // grow; pages that are never written take no memory.
  partials_.reserve(std::size_t{block_count} + 1);
  free_partials_.reserve(block_count);
  partials_.emplace_back();
}

BlockTable::BlockState BlockTable::StateOf(std::uint32_t block) const {
  const FullCounts& full = full_[block];
  const PartialCounts& partial = partials_[partial_slot_[block]];
  BlockState state;
  const bool is_full = (full.by_holder[0] | full.by_holder[1]) != 0;
  state.live_mask = is_full ? ~0u : partial.live_mask;
  state.is_used = state.live_mask != 0;
  state.is_reclaimable =
      state.is_used && full.by_holder[kHeld] == 0 && partial.by_holder[kHeld] == 0;
  return state;
}

void BlockTable::Account(BlockState before, BlockState after) {
  live_cells_ += static_cast<std::uint64_t>(std::popcount(after.live_mask));
  live_cells_ -= static_cast<std::uint64_t>(std::popcount(before.live_mask));
  used_blocks_ += after.is_used;
  used_blocks_ -= before.is_used;
  reclaimable_blocks_ += after.is_reclaimable;
  reclaimable_blocks_ -= before.is_reclaimable;
}

// The last entry takes the slow path, because its end is not in the entries but in view.cell_count.
template <bool kIsHeld, class Slow>
void BlockTable::CountList(ExtentView view, OwnerId owner, std::uint32_t count_min,
                           std::uint32_t times, const Slow& slow) {
  FullCounts* const blocks = full_.data();
  const std::size_t last = view.entries.size() - 1;
  const layout::Extent* entry = view.entries.data();
  for (std::size_t index = 0; index < last; ++index, ++entry) {
    FullCounts& full = blocks[entry->block];
    std::uint32_t& count = full.by_holder[kIsHeld ? 0 : 1];
    const bool is_fast = entry[1].start - entry->start == layout::kBlockCells &&
                         count >= count_min && (!kIsHeld || full.owner == owner);
    if (is_fast) [[likely]] {
      count += times;
    } else {
      slow(view.RangeAt(index));
    }
  }
  slow(view.RangeAt(last));
}

template <class Slow>
void BlockTable::CountList(ExtentView view, Holder holder, std::uint32_t count_min,
                           std::uint32_t times, const Slow& slow) {
  if (view.entries.empty()) return;
  if (holder.is_held) {
    CountList<true>(view, holder.owner, count_min, times, slow);
  } else {
    CountList<false>(view, OwnerId{}, count_min, times, slow);
  }
}

void BlockTable::AddList(ExtentView view, Holder holder, std::uint32_t times) {
  CountList(view, holder, 1, times, [&](BlockRange range) { Add(range, holder, times); });
}

void BlockTable::DropList(ExtentView view, Holder holder, std::vector<std::uint32_t>* freed) {
  CountList(view, holder, 2, kMinusOne, [&](BlockRange range) { Drop(range, holder, freed); });
}

void BlockTable::Add(BlockRange range, Holder holder, std::uint32_t times) {
  if (IsFull(range)) {
    FullCounts& full = full_[range.block];
    std::uint32_t& count = full.by_holder[IndexOf(holder)];
    if (IsFast(full, count, 1, holder)) {
      count += times;
      return;
    }
  }
  AddSlow(range, holder, times);
}

void BlockTable::Drop(BlockRange range, Holder holder, std::vector<std::uint32_t>* freed) {
  if (IsFull(range)) {
    FullCounts& full = full_[range.block];
    std::uint32_t& count = full.by_holder[IndexOf(holder)];
    if (IsFast(full, count, 2, holder)) {
      --count;
      return;
    }
  }
  DropSlow(range, holder, freed);
}

void BlockTable::ListOwners(std::uint32_t block, std::vector<OwnerId>* owners) const {
  owners->clear();
  const OwnerId known = full_[block].owner;
  if (known == kSeveral) return several_.ListOwners(block, owners);
  if (known != kNoOwner) owners->push_back(known);
}

void BlockTable::AddOwner(std::uint32_t block, OwnerId owner, std::uint32_t times,
                          std::uint32_t held_before) {
  OwnerId& known = full_[block].owner;
  if (known == owner) return;
  if (known == kNoOwner) {
    known = owner;
    ++owned_[owner];
    return;
  }
  if (known != kSeveral) several_.Add(block, std::exchange(known, kSeveral), held_before);
  if (!several_.Refers(block, owner)) ++owned_[owner];
  several_.Add(block, owner, times);
}

void BlockTable::DropOwner(std::uint32_t block, OwnerId owner) {
  OwnerId& known = full_[block].owner;
  if (known == owner) {
    if (CountHeld(block) != 0) return;
    known = kNoOwner;
  } else {
    several_.Drop(block, owner);
    if (several_.Refers(block, owner)) return;
    if (const OwnerId sole = several_.SoleOf(block); sole != kNoOwner) {
      known = sole;
      several_.Clear(block);
    }
  }
  const auto count = owned_.find(owner);
  if (--count->second == 0) owned_.erase(count);
}

void BlockTable::AddSlow(BlockRange range, Holder holder, std::uint32_t times) {
  const BlockState before = StateOf(range.block);
  if (holder.is_held) AddOwner(range.block, holder.owner, times, CountHeld(range.block));
  if (IsFull(range)) {
    full_[range.block].by_holder[IndexOf(holder)] += times;
  } else {
    std::uint32_t& slot = partial_slot_[range.block];
    if (slot == 0) {
      if (free_partials_.empty()) {
        slot = static_cast<std::uint32_t>(partials_.size());
        partials_.emplace_back();
      } else {
        slot = free_partials_.back();
        free_partials_.pop_back();
      }
    }
    PartialCounts& partial = partials_[slot];
    for (std::uint32_t cell = range.first; cell < range.first + std::uint32_t{range.count};
         ++cell) {
      partial.cells[cell] += times;
    }
    partial.by_holder[IndexOf(holder)] += times;
    partial.live_mask |= MaskOf(range);
  }
  Account(before, StateOf(range.block));
}

void BlockTable::DropSlow(BlockRange range, Holder holder, std::vector<std::uint32_t>* freed) {
  const BlockState before = StateOf(range.block);
  if (IsFull(range)) {
    std::uint32_t& count = full_[range.block].by_holder[IndexOf(holder)];
    KVD_ASSERT(count != 0);
    --count;
  } else {
    const std::uint32_t slot = partial_slot_[range.block];
    PartialCounts& partial = partials_[slot];
    KVD_ASSERT(slot != 0 && partial.by_holder[IndexOf(holder)] != 0);
    for (std::uint32_t cell = range.first; cell < range.first + std::uint32_t{range.count};
         ++cell) {
      if (--partial.cells[cell] == 0) partial.live_mask &= ~(1u << cell);
    }
    --partial.by_holder[IndexOf(holder)];
    if ((partial.by_holder[0] | partial.by_holder[1]) == 0) {
      partial_slot_[range.block] = 0;
      free_partials_.push_back(slot);
    }
  }
  if (holder.is_held) DropOwner(range.block, holder.owner);
  const BlockState after = StateOf(range.block);
  Account(before, after);
  if (before.is_used && !after.is_used) freed->push_back(range.block);
}

std::uint32_t BlockTable::references(std::uint32_t block, std::uint32_t cell) const {
  return full_[block].by_holder[0] + full_[block].by_holder[1] +
         partials_[partial_slot_[block]].cells[cell];
}

std::uint32_t BlockTable::CountShared(BlockRange range) const {
  const std::uint32_t full = full_[range.block].by_holder[0] + full_[range.block].by_holder[1];
  if (full >= 2) return range.count;
  const PartialCounts& partial = partials_[partial_slot_[range.block]];
  if (full == 1) {
    return static_cast<std::uint32_t>(std::popcount(partial.live_mask & MaskOf(range)));
  }
  std::uint32_t shared = 0;
  for (std::uint32_t cell = range.first; cell < range.first + std::uint32_t{range.count}; ++cell) {
    shared += partial.cells[cell] >= 2;
  }
  return shared;
}

bool operator==(const BlockTable& a, const BlockTable& b) {
  if (a.full_ != b.full_ || a.live_cells_ != b.live_cells_ || a.used_blocks_ != b.used_blocks_ ||
      a.reclaimable_blocks_ != b.reclaimable_blocks_ || a.owned_ != b.owned_ ||
      !(a.several_ == b.several_)) {
    return false;
  }
  // Slots of the side table are allocated in the order of use. The order of slots is not part of
  // the table's state, so the counts are compared by block and not by slot.
  for (std::uint32_t block = 0; block < a.block_count(); ++block) {
    const std::uint32_t slot_a = a.partial_slot_[block];
    const std::uint32_t slot_b = b.partial_slot_[block];
    if ((slot_a | slot_b) != 0 && !(a.partials_[slot_a] == b.partials_[slot_b])) return false;
  }
  return true;
}

// ---- block allocator
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
