#include "engine/memory/memory.h"

#include "base/check.h"

namespace kvd {

std::unique_ptr<Memory> Memory::Create(MemorySegments segments) {
  return std::unique_ptr<Memory>(new Memory(std::move(segments)));
}

void Memory::SetShareRules(const ShareRules* rules) {
  const MutexLock lock(store_.mutex);
  store_.shares.rules = rules;
}

PoolUsage Memory::Usage() const {
  const MutexLock lock(store_.mutex);
  const layout::MetaGeometry& geometry = store_.geometry();
  const DerivedTables& tables = store_.tables;
  PoolUsage usage;
  usage.group_count = geometry.group_count;
  for (std::uint32_t group = 0; group < geometry.group_count; ++group) {
    usage.groups[group] = {.total_blocks = geometry.block_count[group],
                           .free_blocks = store_.allocators[group].free_blocks(),
                           .reclaimable_blocks = tables.blocks[group].reclaimable_blocks(),
                           .live_cells = tables.blocks[group].live_cells()};
  }
  usage.total_blocks = usage.groups[0].total_blocks;
  usage.free_blocks = usage.groups[0].free_blocks;
  usage.reclaimable_blocks = usage.groups[0].reclaimable_blocks;
  usage.live_cells = usage.groups[0].live_cells;
  usage.sequence_capacity = geometry.sequence_capacity;
  usage.live_sequences = usage.sequence_capacity - tables.sequences.free_count();
  usage.retained_sequences = static_cast<std::uint32_t>(store_.prefix.retained.size());
  usage.reserved_bytes = store_.segments.pool.reserved_bytes();
  usage.list_units_free = tables.lists.free_units();
  usage.state_slots = geometry.state_slot_count;
  usage.free_state_slots = store_.states.free_slots();
  usage.reclaimable_state_slots = tables.states.reclaimable_slots();
  usage.checkpoint_slots = tables.states.checkpoint_slots();
  usage.logits_rows = geometry.logits_row_count;
  usage.free_logits_rows = store_.logits.free_slots();
  return usage;
}

std::uint64_t Memory::commit_number() const {
  const MutexLock lock(store_.mutex);
  return store_.log.next_number();
}

std::byte* Memory::BlockBytes(std::uint32_t group, BlockId block) {
  const auto number = static_cast<std::uint32_t>(block);
  KVD_ASSERT(group < store_.group_count() && number < store_.geometry().block_count[group]);
  return store_.BlockPlace(group, number);
}

Status Memory::GrowBlock(std::uint32_t group, BlockId block) {
  const MutexLock growth(store_.growth_mutex);
  return store_.EnsureBlock(group, static_cast<std::uint32_t>(block));
}

const layout::CellRecord* Memory::BlockCells(std::uint32_t group, BlockId block) const {
  const auto number = static_cast<std::uint32_t>(block);
  KVD_ASSERT(group < store_.group_count() && number < store_.geometry().block_count[group]);
  return store_.meta.cells(group, number);
}

std::byte* Memory::StateBytes(std::uint32_t slot) {
  KVD_ASSERT(slot < store_.geometry().state_slot_count);
  return store_.StatePlace(slot);
}

std::byte* Memory::LogitsBytes(std::uint32_t slot) {
  KVD_ASSERT(slot < store_.geometry().logits_row_count);
  return store_.LogitsPlace(slot);
}

}  // namespace kvd
