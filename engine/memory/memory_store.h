// MemoryStore: the committed state of a memory, all state that is derived from the committed state,
// and the locks that protect this state. The parts of a memory (sequences.h, steps.h,
// prefix_cache.h, …) share one store; every change of committed state is a Transaction over it
// (transaction.h).
//
// A Memory owns the store, and only the parts of that Memory use it. The store has two mutexes:
// * mutex: protects the members marked with it; held for microseconds.
// * growth_mutex: held by a part that takes blocks out of the free set or returns pool bytes to the
//   system. growth_mutex is taken before mutex and held during system calls (reserving a slab takes
//   milliseconds); metadata verbs never wait for it.
//
// Invariant between two calls: tables equals RebuildTables(meta). A block is taken in an allocator
// exactly if tables refers to it, a reservation or a hold keeps it, or it is in limbo.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "engine/memory/block_table.h"
#include "engine/memory/commit_log.h"
#include "engine/memory/derived_tables.h"
#include "engine/memory/extents.h"
#include "engine/memory/memory_info.h"
#include "engine/memory/memory_segments.h"
#include "engine/memory/prefix_tables.h"
#include "engine/memory/shares.h"
#include "engine/memory/transaction_scratch.h"

namespace kvd {

// FoundSequence: a sequence that was found by its handle. `record` is the committed record and is
// read-only.
struct FoundSequence {
  std::uint32_t index = 0;
  const layout::SequenceRecord* record = nullptr;
};

// Ordinals [begin, end) of cells.
struct CellRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

// State of a sequence that only this process has and that is not stored in `meta`.
struct SequenceFacts {
  // A number that increases when the sequence's cells change, but not when its owner or flags
  // change.
  std::uint64_t content_number = 0;
  std::uint64_t computed_number = 0;  // content_number after the sequence's last step
  // key_form: the form that all keys of the sequence have, valid while content_number equals
  // form_content_number. With a valid key_form, a step of a model with two rotations does not need
  // to examine every cell.
  std::uint64_t form_content_number = ~std::uint64_t{0};
  std::uint32_t key_form = 0;
  Holder holder;  // how the sequence's references are counted

  bool has_form(std::uint32_t form) const {
    return form_content_number == content_number && key_form == form;
  }
  void SetForm(std::uint32_t form) {
    form_content_number = content_number;
    key_form = form;
  }
};

// Counts of examined items, for tests which check that the work under the lock does not grow with
// the size of the memory. `records`: the sequence, snapshot and session records that queries have
// examined in total. The other members of MemoryLooks are the maximum numbers of records, cells and
// extents that were examined under one lock; the extents are those that a defragmentation examines.
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

  // ---- constant values: any thread, no lock
  const layout::MetaGeometry& geometry() const { return meta.geometry(); }
  std::uint32_t group_count() const { return geometry().group_count; }
  bool is_cross(std::uint32_t group) const { return group == geometry().cross_group; }
  bool has_cross() const { return geometry().cross_group != layout::kNoSlot; }
  bool has_state() const { return geometry().state_slot_count != 0; }
  // Addresses of blocks and slots in the pool. The functions that return addresses may be called
  // without the mutex, because they read only constant members of the allocators.
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
  // Writes the record of a cell. REQUIRES: the cell is reserved for the caller.
  void WriteCell(std::uint32_t group, std::uint32_t block, std::uint32_t cell, TokenId token,
                 std::int32_t stored_pos, std::uint32_t key_form);

  // ---- pool bytes. The Ensure functions make the bytes safe to write. Errors: kNoSpace, kIo.
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
  // Returns unused slabs to the system; no effect if another thread holds growth_mutex.
  void ReturnUnusedSlabs() KVD_EXCLUDES(mutex);

  // ---- find. Errors: kNotFound; FindUnpublished and FindMutable also kPermission (published);
  // FindWhole and FindMutable also kBusy (tokens of the sequence have given their cells back).
  Result<FoundSequence> Find(SequenceHandle handle) const KVD_REQUIRES(mutex);
  Result<FoundSequence> FindWhole(SequenceHandle handle) const KVD_REQUIRES(mutex);
  Result<FoundSequence> FindUnpublished(SequenceHandle handle) const KVD_REQUIRES(mutex);
  Result<FoundSequence> FindMutable(SequenceHandle handle) const KVD_REQUIRES(mutex);
  static Status CheckWhole(SequenceHandle handle, const layout::SequenceRecord& record);
  // The cells with positions in `range`. Error: kInvalidArgument (invalid range).
  Result<CellRange> FindCells(const layout::SequenceRecord& record, PosRange range) const
      KVD_REQUIRES(mutex);
  ExtentView ViewOf(const layout::SequenceRecord& record, std::uint32_t group = 0) const
      KVD_REQUIRES(mutex) {
    return {meta.entries(record.extents[group]), CellCountOf(record, geometry(), group)};
  }
  // The list of group 0.
  CellList CellsOf(const layout::SequenceRecord& record) const KVD_REQUIRES(mutex);
  // Effective position of a cell of group 0.
  std::int64_t PositionIn(std::span<const BlockRange> ranges, std::uint32_t ordinal) const
      KVD_REQUIRES(mutex);
  // Errors: kWindowLost, if the token at next_pos reaches a dropped cell. last_dropped: the
  // position of the last dropped cell.
  Status CheckWindow(std::uint32_t group, std::int64_t last_dropped, std::int64_t next_pos) const
      KVD_REQUIRES(mutex);
  SequenceInfo Describe(std::uint32_t index) const KVD_REQUIRES(mutex);
  std::uint32_t CountSharedCells(ExtentView view) const KVD_REQUIRES(mutex);
  void NoteLooks(std::uint64_t records) const KVD_REQUIRES(mutex) {
    looks.records += records;
    looks.records_at_once = std::max(looks.records_at_once, records);
  }

  // ---- error messages
  std::string NoBlocks(std::uint32_t group, std::uint64_t needed) const KVD_REQUIRES(mutex);
  std::string NoStates(std::uint64_t needed) const KVD_REQUIRES(mutex);
  std::unexpected<Error> NoListUnits(std::uint32_t units) const KVD_REQUIRES(mutex);

  // ---- passes that must visit each block or sequence only once. BeginMarks begins a pass; Mark
  // returns true when it is called with a number for the first time in the pass.
  void BeginMarks() const KVD_REQUIRES(mutex) { ++mark; }
  bool Mark(std::vector<std::uint64_t>* marks, std::uint32_t number) const KVD_REQUIRES(mutex);

  // ---- readers of blocks without the lock: a step, a rewrite, a defragmentation
  void BeginRead() KVD_REQUIRES(mutex);
  void EndRead() KVD_REQUIRES(mutex);
  // Frees the blocks and slots in `freed`, which no committed record refers to any more. Blocks go
  // to limbo while a reader is active.
  void SettleFreed() KVD_REQUIRES(mutex);
  // Called after an error. If the error is kNoSpace and brief holds exist, waits until no brief
  // hold is left and returns true: the caller retries. For other errors, or without brief holds,
  // returns false at once.
  bool AwaitBriefHolds(const Status& refused) KVD_EXCLUDES(mutex);
  template <class T>
  bool AwaitBriefHolds(const Result<T>& refused) KVD_EXCLUDES(mutex) {
    return !refused && AwaitBriefHolds(Status(std::unexpected(refused.error())));
  }

  MemorySegments segments;
  // `mutex` protects the records and lists of `meta`. Cell records are written without a mutex, by
  // the step, restore or rewrite that has reserved the cells.
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
  FreedNumbers freed KVD_GUARDED_BY(mutex);
  ShareBook shares KVD_GUARDED_BY(mutex);

  std::uint32_t brief_holds KVD_GUARDED_BY(mutex) = 0;
  CondVar brief_hold_ended;
  bool step_is_running KVD_GUARDED_BY(mutex) = false;
  std::uint32_t defragmentation_pauses KVD_GUARDED_BY(mutex) = 0;
  // The index of the record at which FindLogits continues its search for a sequence that loses its
  // kept row of logits.
  std::uint32_t logits_victim KVD_GUARDED_BY(mutex) = 0;

  // Scratch buffers, which are kept so that verbs do not allocate memory.
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
