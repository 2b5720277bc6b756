// UnifiedMemory: the Memory of a model whose attention layers all keep the same cells (one block
// group, no recurrent state).
//
// Owner: the engine. Threads: see Memory. Two mutexes:
//   mutex_         everything below it; held for microseconds.
//   growth_mutex_  whoever takes blocks out of the free set or returns pool bytes to the system,
//   taken before mutex_. It is
//                  held over system calls (reserving a slab takes milliseconds), so metadata verbs
//                  never wait for it: Drop
//                  only tries it.
//
// Every verb is three steps: find (const; all errors are found here), write new data where nothing
// committed refers to it, then one CommitLog commit followed by the same change of the derived
// tables, which cannot fail.
//
// An edit writes the new list out of place and frees the old one after the commit. Two edits are
// cheaper: an append writes behind the committed entries of the list, and cutting a tail keeps the
// list and lowers its counts.
//
// Files: sequence_verbs.cc (create … drop), sequence_edits.cc (ranges), snapshot_verbs.cc,
// step_verbs.cc, rewrite_cells.cc; unified_memory.cc holds what they share and the queries.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/memory/block_allocator.h"
#include "engine/memory/commit_log.h"
#include "engine/memory/derived_tables.h"
#include "engine/memory/extents.h"
#include "engine/memory/memory.h"
#include "engine/memory/memory_segments.h"

namespace kvd {

class UnifiedMemory final : public Memory {
 public:
  // Takes over segments that were just created. Errors: kUnsupported (other than one block group).
  static Result<std::unique_ptr<UnifiedMemory>> Create(MemorySegments segments);
  ~UnifiedMemory() override;

  Result<SequenceHandle> Create(const SequenceOwner& owner) override;
  Status Fork(SequenceHandle source, const SequenceOwner& owner, std::span<SequenceHandle> handles,
              std::optional<std::uint32_t> cell_count) override;
  Status Drop(SequenceHandle handle) override;
  Status DropAll(std::span<const SequenceHandle> handles) override;
  Status Keep(SequenceHandle kept, SessionId session) override;
  Result<std::uint32_t> RemoveRange(SequenceHandle handle, PosRange range) override;
  Status Clear(SequenceHandle handle) override;
  Result<std::uint32_t> CopyRange(SequenceHandle source, SequenceHandle destination,
                                  PosRange range) override;
  Status AddPositions(SequenceHandle handle, PosRange range, std::int32_t delta) override;
  Result<std::uint32_t> DividePositions(SequenceHandle handle, PosRange range, std::int32_t divisor,
                                        CellRotator& rotator) override;
  Result<std::uint32_t> Settle(SequenceHandle handle, SettleScope scope,
                               CellRotator& rotator) override;
  Result<std::uint32_t> ChangeKeyForm(SequenceHandle handle, std::uint32_t key_form,
                                      CellRotator& rotator) override;
  Result<DefragSlice> Defragment(std::uint32_t cells_max, CellMover& mover) override;
  Status SetOwner(SequenceHandle handle, const SequenceOwner& owner, std::uint32_t flags_set,
                  std::uint32_t flags_clear) override;
  Result<SequenceHandle> Publish(SequenceHandle source, const SequenceOwner& owner,
                                 std::string_view name, bool is_public, bool replace) override;
  Status Unpublish(std::string_view name) override;
  Result<SnapshotInfo> FindSnapshot(std::string_view name) const override;
  std::vector<SnapshotInfo> Snapshots() const override;
  Result<SequenceInfo> Query(SequenceHandle handle) const override;
  Result<SequenceUse> QueryUse(SequenceHandle handle) const override;
  std::vector<SequenceInfo> Sequences() const override;
  PoolUsage Usage() const override;
  Status ReadCells(SequenceHandle handle, std::uint32_t first_cell, std::uint32_t count,
                   std::vector<TokenId>* tokens, std::vector<Pos>* positions) const override;
  Status Reserve(std::span<const AppendRequest> requests, StepPlan* plan,
                 std::size_t* failed) override;
  Status Commit(StepPlan& plan, std::size_t index) override;
  void Abandon(StepPlan& plan, std::size_t index) override;
  void EndStep(StepPlan& plan) override;
  Result<bool> KeepCheckpoint(SequenceHandle handle) override;
  Result<bool> KeepLogits(SequenceHandle handle, const float* row) override;
  Result<bool> ReadLogits(SequenceHandle handle, float* row) const override;
  Status BeginRewind(SequenceHandle handle, PosRange range, Rewind* rewind) override;
  Status CommitRewind(Rewind& rewind) override;
  void AbandonRewind(Rewind& rewind) override;
  std::byte* StateBytes(std::uint32_t slot) override;
  std::byte* BlockBytes(BlockId block) override;
  const layout::CellRecord* BlockCells(BlockId block) const override;

  const MemoryGeometry& geometry() const { return segments_.geometry; }
  // For tests and `kvctl fsck`-like checks. REQUIRES: no other thread is in a verb.
  const DerivedTables& derived() const { return tables_; }
  std::span<const std::byte> meta_bytes() const { return meta_.bytes(); }
  bool is_free_block(std::uint32_t block) const { return allocator_.is_free(block); }
  CommitLog& commit_log_for_test() { return log_; }

 private:
  // A sequence found by its handle. `record` is the committed one, to be read only.
  struct Found {
    std::uint32_t index = 0;
    const layout::SequenceRecord* record = nullptr;
  };
  // Ordinals [begin, end) of the cells of a range.
  struct CellRange {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };
  // What this process knows of an open part of the step.
  struct OpenPart {
    bool is_open = false;
    std::uint64_t content_number = 0;
  };

  explicit UnifiedMemory(MemorySegments segments);

  // ---- find (REQUIRES: mutex_ is held). Errors of FindMutable: kNotFound, kPermission.
  Result<Found> Find(SequenceHandle handle) const;
  Result<Found> FindMutable(SequenceHandle handle) const;
  Result<CellRange> FindCells(const layout::SequenceRecord& record, PosRange range) const;
  ExtentView ViewOf(const layout::SequenceRecord& record) const;
  CellList CellsOf(const layout::SequenceRecord& record) const;
  std::int64_t NextPosition(std::span<const Piece> pieces) const;
  SequenceInfo Describe(std::uint32_t index, const layout::SequenceRecord& record) const;
  std::uint32_t CountSharedCells(ExtentView view) const;
  std::string NoBlocks(std::uint64_t needed, std::uint64_t free) const;
  std::unexpected<Error> NoListUnits(std::uint32_t units) const;
  // True at the first call for this number in a pass; passes are begun by BeginMarks.
  void BeginMarks() const;
  bool Mark(std::vector<std::uint64_t>* marks, std::uint32_t number) const;

  // ---- write (not committed yet)
  Result<layout::ListRoot> AllocateList(std::uint32_t entry_count);
  Result<layout::ListRoot> WriteList(std::span<const Piece> pieces);
  Result<layout::ListRoot> CopyList(const layout::ListRoot& source, std::uint32_t entry_count);
  void FreeList(const layout::ListRoot& root);

  // ---- commit, then derive
  void PutRecord(std::uint32_t index, const layout::SequenceRecord& record);
  void PutFreed(std::uint32_t index);
  // What an edit of a list means for the rest of the record.
  struct ListChange {
    std::uint32_t pristine_cells = 0;
    std::uint32_t unchanged_cells = 0;  // leading cells that are what they were
    // The recurrent state behind the new list; unset: that of a checkpoint, or the old one.
    std::optional<std::uint32_t> state_slot = {};
    // Whose first unchanged_cells cells the list consists of; null: the sequence's own.
    const layout::SequenceRecord* state_source = nullptr;
  };
  // Gives the sequence new_pieces_ as its list, in one commit. REQUIRES: old_pieces_ is its list
  // now. Errors: kNoSpace, kNeedsReplay.
  Status ReplaceList(std::uint32_t index, ListChange change);
  // The counts of old_pieces_ replaced by those of new_pieces_.
  void RecountPieces(Holder holder);
  // Writes `count` forks of the first cell_count cells of `source` as records ready to be put;
  // lists are allocated.
  Status PrepareForks(const layout::SequenceRecord& source, const SequenceOwner& owner,
                      std::uint32_t flags, std::uint32_t cell_count, std::size_t count);
  void UndoForks();
  // After the commit: counts the forks; returns the first one's handle and all of them in
  // `handles`, unless that is empty.
  SequenceHandle AdoptForks(std::span<SequenceHandle> handles);
  // Drops dropped_ in one commit. Errors: kNoSpace (more than one record holds).
  Status DropCollected();
  // After the commit that freed it.
  void ForgetSequence(std::uint32_t index);
  // Shifts the cells of a range without looking at each list of pieces; false: the range cuts an
  // extent, or a shifted one could join its neighbour. Errors: kNoSpace (lists).
  // REQUIRES: the cells may have the positions that they get.
  Result<bool> ShiftWholeExtents(const Found& found, CellRange shifted, std::int32_t delta);
  // Keeps the first cell_count cells.
  Status CutTail(std::uint32_t index, std::uint32_t cell_count);
  void SettleFreedBlocks();
  void ReturnUnusedSlabs();

  // ---- recurrent state
  static constexpr std::size_t kCheckpointsMax = 16;  // of one sequence
  bool has_state() const { return meta_.geometry().state_slot_count != 0; }
  std::span<const layout::Checkpoint> CheckpointsOf(const layout::SequenceRecord& record) const;
  void AddStateReferences(const layout::SequenceRecord& record, Holder holder, std::uint32_t times);
  void DropStateReferences(const layout::SequenceRecord& record, Holder holder);
  // The counts of one record's state replaced by those of the other; frees the old checkpoints'
  // list if it is another one.
  void RecountState(const layout::SequenceRecord& old_record,
                    const layout::SequenceRecord& new_record, Holder holder);
  // State, logits and checkpoints of a record whose list becomes one of cell_count cells, the first
  // unchanged_cells of them those of `old`. Errors: kNeedsReplay.
  Status PlanState(const layout::SequenceRecord& old, std::uint32_t unchanged_cells,
                   std::uint32_t cell_count, layout::SequenceRecord* record) const;
  // State and logits of a fork of the first cell_count (> 0) cells of `source`. Errors:
  // kNeedsReplay.
  Status PlanFork(const layout::SequenceRecord& source, std::uint32_t cell_count,
                  layout::SequenceRecord* record) const;
  Result<layout::ListRoot> WriteCheckpoints(std::span<const layout::Checkpoint> checkpoints);
  void CollectCheckpoints(const layout::SequenceRecord& source, std::uint32_t cell_count,
                          std::uint32_t state_slot);
  // Commits a record that differs in its state alone.
  Status CommitState(const Found& found, const layout::SequenceRecord& record);
  // Gives up checkpoints, of the sequence that has most of them first, until that many state slots
  // are free or no checkpoint is left. REQUIRES: no step is running.
  void GiveUpCheckpoints(std::size_t slots_wanted);
  // The next sequence in turn that has a row loses it, until one is free.
  void GiveUpLogits();
  std::string NoStates(std::uint64_t needed) const;
  // Reserves a block's bytes from the system. REQUIRES: growth_mutex_ is held.
  Status EnsureBytes(const BlockAllocator& allocator, std::uint32_t block);
  void BeginStep();
  void EndAllocations();

  // ---- defragmentation
  struct Moves;
  void ChooseSources(std::uint32_t cells_max, Moves* moves) const;
  void PlaceCells(Moves* moves);
  bool MapPieces(ExtentView view, Moves* moves);
  Status CopyCells(const Moves& moves, CellMover& mover);
  Result<std::uint32_t> RewriteLists(Moves* moves);

  // ---- steps
  struct NewCells;
  struct Rewriting;
  Status CheckAppend(const AppendRequest& request, Found* found) const;
  Status CheckListRoom(const layout::SequenceRecord& record, const NewCells& cells) const;
  NewCells PlanAppend(const layout::SequenceRecord& record, std::uint32_t new_cells) const;
  void ReservePart(const AppendRequest& request, const Found& found, const NewCells& cells,
                   StepSequence* part);
  Status GrowPool(const StepPlan& plan, std::size_t* failed);
  void UndoReserve(StepPlan* plan);
  void WriteCells(const StepSequence& part);
  void WriteCell(std::uint32_t block, std::uint32_t cell, TokenId token, std::int32_t stored_pos,
                 std::uint32_t key_form);
  void ReleasePart(StepPlan& plan, std::size_t index);
  Result<Rewriting> PlanDivision(SequenceHandle handle, PosRange range, std::int32_t divisor) const;
  Result<Rewriting> PlanReforming(SequenceHandle handle, std::uint32_t key_form) const;
  Result<Rewriting> PlanSettling(SequenceHandle handle, SettleScope scope) const;
  Status CollectSources(const layout::SequenceRecord& record, Rewriting* rewriting) const;
  Result<std::uint32_t> Rewrite(SequenceHandle handle, Rewriting rewriting, CellRotator& rotator,
                                std::unique_lock<std::mutex> lock);
  Status RotateCells(const Rewriting& rewriting, CellRotator& rotator);
  Status CommitRewriting(SequenceHandle handle, const Rewriting& rewriting);

  MemorySegments segments_;
  MetaView meta_;

  mutable std::mutex growth_mutex_;
  mutable std::mutex mutex_;
  // Everything below: mutex_.
  DerivedTables tables_;
  BlockAllocator allocator_;
  BlockAllocator state_allocator_;
  BlockAllocator logits_allocator_;
  CommitLog log_;
  std::vector<std::uint64_t>
      content_numbers_;  // by sequence: raised by edits of its cells, not by a change of owner
  std::vector<Holder> holders_;       // by sequence: how its list is counted in tables_.blocks
  std::vector<OpenPart> open_parts_;  // by index of the step's plan
  // Scratch, kept so that verbs do not allocate.
  std::vector<Piece> old_pieces_;
  std::vector<Piece> new_pieces_;
  std::vector<Piece> moved_pieces_;
  std::vector<std::uint32_t> freed_blocks_;
  std::vector<std::uint32_t> freed_slots_;
  std::vector<layout::Checkpoint> checkpoints_;
  std::vector<std::uint32_t> dropped_;
  std::vector<Found> found_;
  struct PreparedFork {
    std::uint32_t index = 0;
    layout::SequenceRecord record = {};
  };
  std::vector<PreparedFork> forks_;
  mutable std::vector<std::uint64_t> block_marks_;
  mutable std::vector<std::uint64_t> sequence_marks_;
  mutable std::uint64_t mark_ = 0;
  const std::uint32_t checkpoint_slots_max_;
  std::uint32_t logits_victim_ = 0;
  std::uint32_t open_rewinds_ = 0;
};

}  // namespace kvd
