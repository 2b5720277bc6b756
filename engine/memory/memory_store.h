// MemoryStore: the committed state of a memory, all that is derived from it, and the locks over both.
// The parts of a memory (sequences.h, steps.h, prefix_cache.h, …) work on one store; every change of
// committed state is a Transaction over it (transaction.h).
//
// Owner: Memory; used by its parts alone. Two mutexes:
//   mutex         what is marked with it; held for microseconds.
//   growth_mutex  is held by a part that takes blocks out of the free set or returns pool bytes to
//                 the system. It is taken before mutex and held over system calls (reserving a slab
//                 takes milliseconds), so metadata verbs never wait for it.
//
// Invariant between two calls: tables equals RebuildTables(meta), and a block is taken in an allocator
// exactly if tables refers to it, a reservation or a hold keeps it, or it is in limbo.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/memory/block_allocator.h"
#include "engine/memory/commit_log.h"
#include "engine/memory/derived_tables.h"
#include "engine/memory/extents.h"
#include "engine/memory/memory_info.h"
#include "engine/memory/memory_segments.h"
#include "engine/memory/prefix_tables.h"
#include "engine/memory/shares.h"
#include "engine/memory/transaction_scratch.h"
#include "shm/mutex.h"

namespace kvd {

// A sequence found by its handle. `record` is the committed one, to be read only.
struct FoundSequence {
  std::uint32_t index = 0;
  const layout::SequenceRecord* record = nullptr;
};

// Ordinals [begin, end) of the cells of a range.
struct CellRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

// What only this process knows of a sequence.
struct SequenceFacts {
  std::uint64_t content_number = 0;   // raised by changes of its cells, not of its owner
  std::uint64_t computed_number = 0;  // content number of its last step
  // The form that all its keys have, known for one content. So a step of a model with two rotations
  // need not look at every cell.
  std::uint64_t form_content_number = ~std::uint64_t{0};
  std::uint32_t key_form = 0;
  Holder holder;  // how its references are counted

  bool has_form(std::uint32_t form) const {
    return form_content_number == content_number && key_form == form;
  }
  void SetForm(std::uint32_t form) {
    form_content_number = content_number;
    key_form = form;
  }
};

// How many records of sequences, snapshots and sessions the queries have looked at, in all and most
// under one lock; how many cells were read, and how many extents a defragmentation looked at, under
// one. Tests read here what grows with the memory.
struct MemoryLooks {
  std::uint64_t records = 0;
  std::uint64_t records_at_once = 0;
  std::uint64_t cells_at_once = 0;
  std::uint64_t extents_at_once = 0;
};

struct MemoryStore {
  explicit MemoryStore(MemorySegments taken);
  MemoryStore(const MemoryStore&) = delete;
  MemoryStore& operator=(const MemoryStore&) = delete;

  // ---- what never changes: any thread, no lock
  const layout::MetaGeometry& geometry() const { return meta.geometry(); }
  std::uint32_t group_count() const { return geometry().group_count; }
  bool is_cross(std::uint32_t group) const { return group == geometry().cross_group; }
  bool has_cross() const { return geometry().cross_group != layout::kNoSlot; }
  bool has_state() const { return geometry().state_slot_count != 0; }
  // Where blocks and slots lie in the pool. That is all that is read of the allocators here.
  std::byte* BlockPlace(std::uint32_t group,
                        std::uint32_t block) const KVD_NO_THREAD_SAFETY_ANALYSIS {
    return allocators[group].bytes(block);
  }
  std::byte* StatePlace(std::uint32_t slot) const KVD_NO_THREAD_SAFETY_ANALYSIS {
    return states.bytes(slot);
  }
  std::byte* LogitsPlace(std::uint32_t slot) const KVD_NO_THREAD_SAFETY_ANALYSIS {
    return logits.bytes(slot);
  }
  // The record of a cell that is reserved for the caller.
  void WriteCell(std::uint32_t group, std::uint32_t block, std::uint32_t cell, TokenId token,
                 std::int32_t stored_pos, std::uint32_t key_form);

  // ---- pool bytes. EnsureX makes them safe to write. Errors: kNoSpace, kIo.
  Status EnsureBlock(std::uint32_t group, std::uint32_t block) const
      KVD_REQUIRES(growth_mutex) KVD_NO_THREAD_SAFETY_ANALYSIS {
    return allocators[group].EnsureReserved(block);
  }
  Status EnsureState(std::uint32_t slot) const
      KVD_REQUIRES(growth_mutex) KVD_NO_THREAD_SAFETY_ANALYSIS {
    return states.EnsureReserved(slot);
  }
  Status EnsureLogits(std::uint32_t slot) const
      KVD_REQUIRES(growth_mutex) KVD_NO_THREAD_SAFETY_ANALYSIS {
    return logits.EnsureReserved(slot);
  }
  // Gives slabs that nothing uses back to the system, unless somebody holds growth_mutex.
  void ReturnUnusedSlabs() KVD_EXCLUDES(mutex);

  // ---- find. Errors: kNotFound; of FindMutable also kPermission (published).
  Result<FoundSequence> Find(SequenceHandle handle) const KVD_REQUIRES(mutex);
  Result<FoundSequence> FindMutable(SequenceHandle handle) const KVD_REQUIRES(mutex);
  // Error: kInvalidArgument (the range is none).
  Result<CellRange> FindCells(const layout::SequenceRecord& record, PosRange range) const
      KVD_REQUIRES(mutex);
  ExtentView ViewOf(const layout::SequenceRecord& record, std::uint32_t group = 0) const
      KVD_REQUIRES(mutex) {
    return {meta.entries(record.extents[group]), CellCountOf(record, geometry(), group)};
  }
  CellList CellsOf(const layout::SequenceRecord& record) const KVD_REQUIRES(mutex);  // of group 0
  // Effective position of a cell of group 0.
  std::int64_t PositionIn(std::span<const Piece> pieces, std::uint32_t ordinal) const
      KVD_REQUIRES(mutex);
  // kWindowLost, if the next token reaches a cell before first_cell; last_dropped is the position
  // of the one just before it.
  Status CheckWindow(std::uint32_t group, std::int64_t last_dropped, std::int64_t next_pos) const
      KVD_REQUIRES(mutex);
  SequenceInfo Describe(std::uint32_t index) const KVD_REQUIRES(mutex);
  std::uint32_t CountSharedCells(ExtentView view) const KVD_REQUIRES(mutex);
  void NoteLooks(std::uint64_t records) const KVD_REQUIRES(mutex) {
    looks.records += records;
    looks.records_at_once = std::max(looks.records_at_once, records);
  }

  // ---- sentences that refuse
  std::string NoBlocks(std::uint32_t group, std::uint64_t needed) const KVD_REQUIRES(mutex);
  std::string NoStates(std::uint64_t needed) const KVD_REQUIRES(mutex);
  std::unexpected<Error> NoListUnits(std::uint32_t units) const KVD_REQUIRES(mutex);

  // ---- passes over blocks or sequences that must not meet one twice. True at the first call of Mark
  // for this number in a pass; passes are begun by BeginMarks.
  void BeginMarks() const KVD_REQUIRES(mutex) { ++mark; }
  bool Mark(std::vector<std::uint64_t>* marks, std::uint32_t number) const KVD_REQUIRES(mutex);

  // ---- readers of blocks without the lock: a step, a rewrite, a defragmentation
  void BeginRead() KVD_REQUIRES(mutex);
  void EndRead() KVD_REQUIRES(mutex);
  // What tables say is unreferenced becomes free, or limbo.
  void SettleFreed() KVD_REQUIRES(mutex);
  // After kNoSpace: waits until no brief hold is left. False: there was none, or another outcome.
  bool AwaitBriefHolds(const Status& refused) KVD_EXCLUDES(mutex);
  template <class T>
  bool AwaitBriefHolds(const Result<T>& refused) KVD_EXCLUDES(mutex) {
    return !refused && AwaitBriefHolds(Status(std::unexpected(refused.error())));
  }

  MemorySegments segments;
  // Its records and lists: mutex. Cells are written by the part that has reserved them, under no mutex.
  MetaView meta;

  mutable Mutex growth_mutex;
  mutable Mutex mutex KVD_ACQUIRED_AFTER(growth_mutex);

  DerivedTables tables KVD_GUARDED_BY(mutex);
  std::vector<BlockAllocator> allocators KVD_GUARDED_BY(mutex);  // by group
  SlotAllocator states KVD_GUARDED_BY(mutex);
  SlotAllocator logits KVD_GUARDED_BY(mutex);
  CommitLog log KVD_GUARDED_BY(mutex);
  std::vector<SequenceFacts> facts KVD_GUARDED_BY(mutex);  // by sequence
  PrefixTables prefix KVD_GUARDED_BY(mutex);
  FreedParts freed KVD_GUARDED_BY(mutex);
  ShareBook shares KVD_GUARDED_BY(mutex);

  std::uint32_t brief_holds KVD_GUARDED_BY(mutex) = 0;
  CondVar brief_hold_ended;
  bool step_is_running KVD_GUARDED_BY(mutex) = false;
  std::uint32_t defragmentation_pauses KVD_GUARDED_BY(mutex) = 0;
  std::uint32_t logits_victim KVD_GUARDED_BY(mutex) = 0;  // the next sequence that gives up its row

  // Scratch, kept so that verbs do not allocate.
  TransactionScratch scratch KVD_GUARDED_BY(mutex);
  std::vector<layout::Checkpoint> checkpoints KVD_GUARDED_BY(mutex);
  std::vector<std::uint32_t> slot_scores KVD_GUARDED_BY(mutex);  // by state slot
  std::vector<std::uint32_t> scores KVD_GUARDED_BY(mutex);
  mutable std::vector<std::uint64_t> block_marks KVD_GUARDED_BY(mutex);
  mutable std::vector<std::uint64_t> sequence_marks KVD_GUARDED_BY(mutex);
  mutable std::uint64_t mark KVD_GUARDED_BY(mutex) = 0;
  mutable MemoryLooks looks KVD_GUARDED_BY(mutex);
};

}  // namespace kvd
