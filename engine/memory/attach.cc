// Attaches to the segments that an earlier process left: applies the published commit record,
// checks every sequence, derives all tables, and then frees the inconsistent sequences in ordinary
// commits.
#include <algorithm>
#include <cstring>
#include <string>

#include "engine/memory/memory.h"
#include "engine/memory/prefix_sync.h"
#include "engine/memory/transaction.h"

namespace kvd {
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
