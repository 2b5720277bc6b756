#include "engine/memory/memory.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "base/check.h"
#include "engine/memory/eviction.h"
#include "engine/memory/prefix_sync.h"
#include "engine/memory/transaction.h"

namespace kvd {

// ---- memory
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

// ---- a change of the memory's size

bool Memory::EvictLeast() {
  const MutexLock lock(store_.mutex);
  PrefixTables& prefix = store_.prefix;
  const std::optional<std::uint32_t> least = prefix.retained.Least(prefix.use_number);
  return least && Evict(store_, *least);
}

std::span<std::byte> Memory::ItemBytes(std::size_t part, std::uint32_t number) {
  const layout::MetaGeometry& geometry = store_.geometry();
  const std::uint64_t item_bytes = part == PoolParts::kStates   ? geometry.state_slot_bytes
                                   : part == PoolParts::kLogits ? geometry.logits_row_bytes
                                                                : geometry.block_stride_bytes[part];
  if (item_bytes == 0) return {};
  return {store_.segments.pool.part(part).data() + number * item_bytes, item_bytes};
}

Status Memory::Claim(std::size_t part, std::uint32_t number) {
  const std::span<const std::byte> bytes = ItemBytes(part, number);
  if (bytes.empty()) return {};
  PoolSegment& pool = store_.segments.pool.part(part);
  const auto offset = static_cast<std::uint64_t>(bytes.data() - pool.data());
  const MutexLock growth(store_.growth_mutex);
  pool.AddUse(offset, bytes.size());
  return pool.EnsureReserved(offset, bytes.size());
}

// ---- attach
// Attaches to the segments that an earlier process left: applies the published commit record,
// checks every sequence, derives all tables, and then frees the inconsistent sequences in ordinary
// commits.

namespace {

// Frees the sequences in one commit; a snapshot is freed together with its sequence.
Status FreeDropped(MemoryStore& store, std::span<const DroppedSequence> dropped,
                   std::vector<LostSequence>* lost) KVD_REQUIRES(store.mutex) {
  Transaction transaction(store);
  for (const DroppedSequence& sequence : dropped) {
    std::string name;
    transaction.FreeUncounted(sequence.index);
    if (sequence.snapshot) {
      const layout::SnapshotRecord& record = store.meta.snapshots()[*sequence.snapshot];
      name.assign(record.name, ::strnlen(record.name, sizeof record.name));
      transaction.PutSnapshot(*sequence.snapshot, {});
    }
    lost->push_back({sequence.handle, std::move(name), sequence.error.message});
  }
  return transaction.Commit();
}

}  // namespace

Result<std::unique_ptr<Memory>> Memory::Attach(MemorySegments segments, const CellLimits& limits,
                                               std::vector<LostSequence>* lost) {
  const MetaView meta = segments.meta.view();
  KVD_CHECK_OK(CommitLog::Replay(meta));
  KVD_TRY(
      Recovery recovery,
      RecoverTables(ConstMetaView(meta.bytes().data(), meta.offsets(), meta.geometry()), limits));
  std::unique_ptr<Memory> memory = Create(std::move(segments));
  KVD_CHECK_OK(memory->Adopt(std::move(recovery), lost));
  return memory;
}

Status Memory::Adopt(Recovery recovery, std::vector<LostSequence>* lost) {
  const MutexLock lock(store_.mutex);
  store_.tables = std::move(recovery.tables);
  for (std::uint32_t index = 0; index < store_.geometry().sequence_capacity; ++index) {
    const layout::SequenceRecord& record = store_.meta.sequences()[index];
    if ((record.flags & layout::kSequenceLive) != 0) store_.facts[index].holder = HolderOf(record);
  }
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    store_.allocators[group].Adopt(store_.tables.blocks[group]);
  }
  store_.states.Adopt(store_.tables.states);
  store_.logits.Adopt(store_.tables.logits);
  KVD_CHECK_OK(store_.segments.pool.RecoverReserved());

  // The sequences are freed in portions, each of which fits into one commit record.
  const std::span<const DroppedSequence> dropped = recovery.dropped;
  for (std::size_t first = 0; first < dropped.size(); first += layout::kForksMax) {
    const auto portion =
        dropped.subspan(first, std::min<std::size_t>(layout::kForksMax, dropped.size() - first));
    KVD_CHECK_OK(FreeDropped(store_, portion, lost));
  }
  RebuildPrefixes(store_);
  return {};
}

}  // namespace kvd
