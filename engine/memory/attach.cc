// Attaching: a memory over segments that an earlier process left. The published record is applied,
// every sequence is checked, all else is derived; then the sequences that do not hold together are
// freed, by commits like any other.
#include <algorithm>
#include <string>

#include "engine/memory/rebuild.h"
#include "engine/memory/unified_memory.h"

namespace kvd {

Result<std::unique_ptr<UnifiedMemory>> UnifiedMemory::Attach(MemorySegments segments,
                                                             const CellLimits& limits,
                                                             std::vector<LostSequence>* lost) {
  const MetaView meta = segments.meta.view();
  KVD_CHECK_OK(CommitLog::Replay(meta));
  KVD_TRY(
      Recovery recovery,
      RecoverTables(ConstMetaView(meta.bytes().data(), meta.offsets(), meta.geometry()), limits));
  std::unique_ptr<UnifiedMemory> memory(new UnifiedMemory(std::move(segments)));
  KVD_CHECK_OK(memory->Adopt(std::move(recovery), lost));
  return memory;
}

Status UnifiedMemory::Adopt(Recovery recovery, std::vector<LostSequence>* lost) {
  const MutexLock lock(mutex_);
  tables_ = std::move(recovery.tables);
  for (std::uint32_t index = 0; index < meta_.geometry().sequence_capacity; ++index) {
    const std::uint32_t flags = meta_.sequences()[index].flags;
    if ((flags & layout::kSequenceLive) != 0) holders_[index] = HolderOf(flags);
  }
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    allocators_[group].Adopt(tables_.blocks[group]);
  }
  states_.Adopt(tables_.states);
  logits_.Adopt(tables_.logits);
  KVD_CHECK_OK(segments_.pool.RecoverReserved());

  // In portions that one commit holds; a snapshot goes with its sequence.
  const std::span<const DroppedSequence> dropped = recovery.dropped;
  for (std::size_t first = 0; first < dropped.size(); first += layout::kForksMax) {
    const auto portion =
        dropped.subspan(first, std::min<std::size_t>(layout::kForksMax, dropped.size() - first));
    KVD_CHECK_OK(FreeDropped(portion, lost));
  }
  RebuildPrefixes();
  return {};
}

Status UnifiedMemory::FreeDropped(std::span<const DroppedSequence> dropped,
                                  std::vector<LostSequence>* lost) {
  const layout::SnapshotRecord nothing = {};
  log_.Begin();
  for (const DroppedSequence& sequence : dropped) {
    PutFreed(sequence.index);
    if (!sequence.snapshot) continue;
    log_.Put(meta_.snapshot_offset(*sequence.snapshot), std::as_bytes(std::span(&nothing, 1)));
  }
  std::vector<std::string> names;
  for (const auto& [name, index] : tables_.snapshots_by_name) {
    names.resize(std::max<std::size_t>(names.size(), index + 1));
    names[index] = name;
  }
  KVD_CHECK_OK(log_.Commit());
  for (const DroppedSequence& sequence : dropped) {
    // None of its cells and slots were counted.
    FreeLists(meta_.sequences()[sequence.index]);
    tables_.sequences.Give(sequence.index);
    std::string name;
    if (sequence.snapshot) {
      name = names[*sequence.snapshot];
      tables_.snapshots.Give(*sequence.snapshot);
      tables_.snapshots_by_name.erase(name);
    }
    lost->push_back({sequence.handle, std::move(name), sequence.error.message});
  }
  return {};
}

}  // namespace kvd
