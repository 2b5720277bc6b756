// UnifiedMemory: the Memory of every kind of model. One record and one commit hold all that a
// sequence consists of: its cells in each block group (all tokens; those in reach of a window; an
// encoded text), its recurrent state, checkpoints and last logits. So an operation on a hybrid
// model changes all of it or nothing.
//
// Owner: the engine. Threads: see Memory. Two mutexes:
//   mutex_         what is marked with it; held for microseconds.
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
// step_verbs.cc, step_commit.cc, state_verbs.cc, rewind_verbs.cc, rewrite_cells.cc, hold_verbs.cc,
// restore_verbs.cc, session_verbs.cc, attach.cc, prefix_verbs.cc, eviction.cc; record_lists.cc
// (lists, commits, counts) and unified_memory.cc (finding, queries) hold what they share.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/memory/block_allocator.h"
#include "engine/memory/commit_log.h"
#include "engine/memory/derived_tables.h"
#include "engine/memory/evicted_prefixes.h"
#include "engine/memory/eviction_order.h"
#include "engine/memory/extents.h"
#include "engine/memory/memory.h"
#include "engine/memory/memory_segments.h"
#include "engine/memory/prefix_index.h"
#include "engine/memory/rebuild.h"
#include "shm/mutex.h"

namespace kvd {

// A sequence that was damaged when its memory was attached to.
struct LostSequence {
  SequenceHandle handle = SequenceHandle::kNone;
  std::string snapshot;  // its name, if it was published
  std::string reason;
};

class UnifiedMemory final : public Memory {
 public:
  // Takes over segments that were just created.
  static Result<std::unique_ptr<UnifiedMemory>> Create(MemorySegments segments);
  // Takes over segments that an earlier process left (attach.cc): their sequences are all there as
  // committed, but for those that are damaged, which are freed and told in `lost`. Errors: kCorrupt
  // (the commit record or the tables), kNoSpace, kIo.
  static Result<std::unique_ptr<UnifiedMemory>> Attach(MemorySegments segments,
                                                       const CellLimits& limits,
                                                       std::vector<LostSequence>* lost);
  ~UnifiedMemory() override;

  Result<SequenceHandle> Create(const SequenceOwner& owner,
                                const AppliedRequest& applied = {}) override;
  Status Fork(SequenceHandle source, const SequenceOwner& owner, std::span<SequenceHandle> handles,
              std::optional<std::uint32_t> cell_count = std::nullopt,
              const AppliedRequest& applied = {}) override;
  Status Drop(SequenceHandle handle, const AppliedRequest& applied = {}) override;
  Status DropAll(std::span<const SequenceHandle> handles,
                 const AppliedRequest& applied = {}) override;
  Status Keep(SequenceHandle kept, SessionId session, const AppliedRequest& applied = {}) override;
  Result<std::uint32_t> RemoveRange(SequenceHandle handle, PosRange range,
                                    const AppliedRequest& applied = {}) override;
  Status Clear(SequenceHandle handle, const AppliedRequest& applied = {}) override;
  Result<std::uint32_t> CopyRange(SequenceHandle source, SequenceHandle destination, PosRange range,
                                  const AppliedRequest& applied = {}) override;
  Status AddPositions(SequenceHandle handle, PosRange range, std::int32_t delta,
                      const AppliedRequest& applied = {}) override;
  Result<std::uint32_t> DividePositions(SequenceHandle handle, PosRange range, std::int32_t divisor,
                                        CellRotator& rotator,
                                        const AppliedRequest& applied = {}) override;
  Result<std::uint32_t> Settle(SequenceHandle handle, SettleScope scope,
                               CellRotator& rotator) override;
  Result<std::uint32_t> ChangeKeyForm(SequenceHandle handle, std::uint32_t key_form,
                                      CellRotator& rotator) override;
  Status BeginRewrite(const RewriteRequest& request, CellRewrite* rewrite) override;
  Result<std::uint32_t> CountRewritten(const RewriteRequest& request) override;
  Result<bool> RewriteSlice(CellRewrite& rewrite, std::uint32_t cells_max,
                            CellRotator& rotator) override;
  void AbandonRewrite(CellRewrite& rewrite) override;
  Result<DefragSlice> Defragment(std::uint32_t cells_max, CellMover& mover) override;
  Status SetOwner(SequenceHandle handle, const SequenceOwner& owner, std::uint32_t flags_set,
                  std::uint32_t flags_clear, const AppliedRequest& applied = {}) override;
  Status SetSampler(SequenceHandle handle, const layout::SamplerRecord& sampler) override;
  Result<SequenceHandle> Publish(SequenceHandle source, const SequenceOwner& owner,
                                 std::string_view name, bool is_public, bool replace,
                                 const AppliedRequest& applied = {}) override;
  Status Unpublish(std::string_view name, const AppliedRequest& applied = {}) override;
  Result<SnapshotInfo> FindSnapshot(std::string_view name) const override;
  std::vector<SnapshotInfo> Snapshots() const override;
  Result<SequenceInfo> Query(SequenceHandle handle) const override;
  Result<SequenceUse> QueryUse(SequenceHandle handle) const override;
  std::vector<SequenceInfo> Sequences() const override;
  std::vector<SequenceInfo> SequencesOf(SessionId session) const override;
  std::vector<SequenceInfo> RetainedOf(std::uint32_t uid) const override;
  OwnerUse UseOf(std::uint32_t uid) const override;
  PoolUsage Usage() const override;
  Status ReadCells(SequenceHandle handle, std::uint32_t first_cell, std::uint32_t count,
                   std::vector<TokenId>* tokens, std::vector<Pos>* positions) override;
  Result<PrefixTaken> TakePrefix(const PrefixRequest& request) override;
  PrefixTaken FindPrefix(const SequenceOwner& owner,
                         std::span<const TokenId> tokens) const override;
  Result<bool> Retain(SequenceHandle handle, const AppliedRequest& applied = {}) override;
  std::uint32_t LimitRetained(std::uint32_t sequences_max) override;
  PrefixCounters prefix_counters() const override;
  std::uint64_t commit_number() const override;
  std::uint32_t VisitSequences(std::uint32_t first_index, std::uint32_t end_index,
                               std::size_t extents_max, SequenceVisitor& visitor) const override;
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
  Status OpenSession(const StoredSession& session) override;
  Status CloseSession(SessionId session) override;
  Status SetSessionProcess(SessionId session, const ClientProcess& process) override;
  std::vector<StoredSession> StoredSessions() const override;
  SessionId LastSession() const override;
  Status Remember(const AppliedRequest& applied, Stage stage, std::uint32_t cells) override;
  Result<AppliedReply> FindApplied(SessionId session, RequestId request) const override;
  RequestId LastRequest(SessionId session) const override;
  std::vector<SequenceHandle> CreatedBy(SessionId session, RequestId request) const override;
  Status Hold(SequenceHandle handle, SequenceHold* hold) override;
  void ReleaseHold(SequenceHold& hold) override;
  Status BeginRestore(const RestoreRequest& request, Restore* restore) override;
  Status CommitRestore(Restore& restore) override;
  void AbandonRestore(Restore& restore) override;
  std::byte* StateBytes(std::uint32_t slot) override;
  std::byte* LogitsBytes(std::uint32_t slot) override;
  std::byte* BlockBytes(std::uint32_t group, BlockId block) override;
  Status GrowBlock(std::uint32_t group, BlockId block) override;
  const layout::CellRecord* BlockCells(std::uint32_t group, BlockId block) const override;

  const MemoryGeometry& geometry() const { return segments_.geometry; }
  // For tests and `kvctl fsck`-like checks. REQUIRES: no other thread is in a verb. That is why
  // they take no mutex and the analysis leaves them out.
  const DerivedTables& derived() const KVD_NO_THREAD_SAFETY_ANALYSIS { return tables_; }
  std::span<const std::byte> meta_bytes() const { return meta_.bytes(); }
  bool is_free_block(std::uint32_t group, std::uint32_t block) const KVD_NO_THREAD_SAFETY_ANALYSIS {
    return allocators_[group].is_free(block);
  }
  bool is_free_state(std::uint32_t slot) const KVD_NO_THREAD_SAFETY_ANALYSIS {
    return states_.is_free(slot);
  }
  bool is_free_logits(std::uint32_t slot) const KVD_NO_THREAD_SAFETY_ANALYSIS {
    return logits_.is_free(slot);
  }
  const PrefixIndex& prefixes() const KVD_NO_THREAD_SAFETY_ANALYSIS { return prefixes_; }
  // Then retained sequences stay, and what has no room is refused.
  void DisableEvictionForTest() KVD_NO_THREAD_SAFETY_ANALYSIS { evicts_ = false; }
  CommitLog& commit_log_for_test() KVD_NO_THREAD_SAFETY_ANALYSIS { return log_; }
  // How many records of sequences, snapshots and sessions the queries have looked at, in all and
  // most under one lock; how many cells were read, and how many extents a defragmentation looked
  // at, under one: what grows with the memory would show here.
  struct Looks {
    std::uint64_t records = 0;
    std::uint64_t records_at_once = 0;
    std::uint64_t cells_at_once = 0;
    std::uint64_t extents_at_once = 0;
  };
  Looks TakeLooks() const KVD_NO_THREAD_SAFETY_ANALYSIS { return std::exchange(looks_, {}); }

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
  // Cells [begin, end) of a record, shifted; or the fresh cells that were written in their place.
  // An edit makes a sequence of segments, one after the other.
  struct Segment {
    const layout::SequenceRecord* record = nullptr;
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    std::int32_t delta = 0;
    const CellRewrite* rewrite = nullptr;
  };
  // The state half of an edited sequence.
  struct NewState {
    std::uint32_t state_slot = layout::kNoSlot;
    std::uint32_t logits_slot = layout::kNoSlot;
    layout::ListRoot checkpoints = kEmptyList;
  };
  // An edit's lists of one group. Scratch, kept so that verbs do not allocate.
  struct GroupEdit {
    std::vector<Piece> old_pieces;
    std::vector<Piece> new_pieces;
    std::uint32_t first_cell = 0;
  };

  explicit UnifiedMemory(MemorySegments segments);
  Status Adopt(Recovery recovery, std::vector<LostSequence>* lost);
  Status FreeDropped(std::span<const DroppedSequence> dropped, std::vector<LostSequence>* lost)
      KVD_REQUIRES(mutex_);

  // While it lives, under mutex_, commits remember the request (PutApplied).
  class Applying {
   public:
    Applying(UnifiedMemory* memory, const AppliedRequest& applied) KVD_REQUIRES(memory->mutex_)
        : memory_(memory) {
      memory_->applying_ = applied.is_somebodys() ? &applied : nullptr;
    }
    ~Applying() { memory_->applying_ = nullptr; }
    Applying(const Applying&) = delete;
    Applying& operator=(const Applying&) = delete;

   private:
    UnifiedMemory* const memory_;
  };

  // Only for bytes() and EnsureReserved(): where blocks and slots lie in the pool never changes, so
  // these two need no mutex_.
  const BlockAllocator& block_places(std::uint32_t group) const KVD_NO_THREAD_SAFETY_ANALYSIS {
    return allocators_[group];
  }
  const SlotAllocator& state_places() const KVD_NO_THREAD_SAFETY_ANALYSIS { return states_; }
  const SlotAllocator& logits_places() const KVD_NO_THREAD_SAFETY_ANALYSIS { return logits_; }
  // Make their bytes safe to write. Errors: kNoSpace, kIo.
  Status EnsureBlock(std::uint32_t group, std::uint32_t block) const KVD_REQUIRES(growth_mutex_) {
    return block_places(group).EnsureReserved(block);
  }
  Status EnsureState(std::uint32_t slot) const KVD_REQUIRES(growth_mutex_) {
    return state_places().EnsureReserved(slot);
  }
  Status EnsureLogits(std::uint32_t slot) const KVD_REQUIRES(growth_mutex_) {
    return logits_places().EnsureReserved(slot);
  }

  // ---- find. Errors of FindMutable: kNotFound, kPermission.
  Result<Found> Find(SequenceHandle handle) const KVD_REQUIRES(mutex_);
  Result<Found> FindMutable(SequenceHandle handle) const KVD_REQUIRES(mutex_);
  Result<CellRange> FindCells(const layout::SequenceRecord& record, PosRange range) const
      KVD_REQUIRES(mutex_);
  std::uint32_t group_count() const { return meta_.geometry().group_count; }
  bool is_cross(std::uint32_t group) const { return group == meta_.geometry().cross_group; }
  bool has_state() const { return meta_.geometry().state_slot_count != 0; }
  ExtentView ViewOf(const layout::SequenceRecord& record, std::uint32_t group = 0) const
      KVD_REQUIRES(mutex_);
  CellList CellsOf(const layout::SequenceRecord& record) const KVD_REQUIRES(mutex_);  // of group 0
  // Effective position of a cell of group 0.
  std::int64_t PositionIn(std::span<const Piece> pieces, std::uint32_t ordinal) const
      KVD_REQUIRES(mutex_);
  // kWindowLost, if the next token reaches a cell before first_cell; last_dropped is the position
  // of the one just before it.
  Status CheckWindow(std::uint32_t group, std::int64_t last_dropped, std::int64_t next_pos) const
      KVD_REQUIRES(mutex_);
  // The state behind the first cell_count cells of the record, as far as it is at hand;
  // checkpoints: those of these cells, in the record's own list. Errors: kNeedsReplay.
  Result<NewState> StateAt(const layout::SequenceRecord& record, std::uint32_t cell_count) const
      KVD_REQUIRES(mutex_);
  SequenceInfo Describe(std::uint32_t index, const layout::SequenceRecord& record) const
      KVD_REQUIRES(mutex_);
  // Calls next(indices) under the mutex, once for each portion, until it returns fewer indices than
  // there is room for; describes those.
  template <class Next>
  std::vector<SequenceInfo> ListInPortions(Next next) const;
  void NoteLooks(std::uint64_t records) const KVD_REQUIRES(mutex_) {
    looks_.records += records;
    looks_.records_at_once = std::max(looks_.records_at_once, records);
  }
  std::uint32_t CountSharedCells(ExtentView view) const KVD_REQUIRES(mutex_);
  std::string NoBlocks(std::uint32_t group, std::uint64_t needed) const KVD_REQUIRES(mutex_);
  std::string NoStates(std::uint64_t needed) const KVD_REQUIRES(mutex_);
  std::unexpected<Error> NoListUnits(std::uint32_t units) const KVD_REQUIRES(mutex_);
  // True at the first call for this number in a pass; passes are begun by BeginMarks.
  void BeginMarks() const KVD_REQUIRES(mutex_);
  bool Mark(std::vector<std::uint64_t>* marks, std::uint32_t number) const KVD_REQUIRES(mutex_);

  // ---- write (not committed yet)
  Result<layout::ListRoot> AllocateList(std::uint32_t entry_count) KVD_REQUIRES(mutex_);
  Result<layout::ListRoot> WriteList(std::span<const Piece> pieces, std::uint32_t first_cell)
      KVD_REQUIRES(mutex_);
  Result<layout::ListRoot> CopyList(const layout::ListRoot& source, std::uint32_t entry_count)
      KVD_REQUIRES(mutex_);
  Result<layout::ListRoot> WriteCheckpoints(std::span<const layout::Checkpoint> checkpoints)
      KVD_REQUIRES(mutex_);
  // The list's first entries, in their place.
  layout::ListRoot CutCheckpoints(const layout::ListRoot& root, std::size_t count) const
      KVD_REQUIRES(mutex_);
  void FreeList(const layout::ListRoot& root) KVD_REQUIRES(mutex_);
  // Frees `gone` unless `kept` lies in its place.
  void FreeReplaced(const layout::ListRoot& gone, const layout::ListRoot& kept)
      KVD_REQUIRES(mutex_);

  // ---- commit, then derive
  void PutRecord(std::uint32_t index, const layout::SequenceRecord& record) KVD_REQUIRES(mutex_);
  void PutFreed(std::uint32_t index) KVD_REQUIRES(mutex_);
  // Gives the sequence the cells of the segments in every group but the cross group, and the state,
  // in one commit; and the encoded text of cross_source, if it has none. Frees the list of
  // state.checkpoints if that is not the sequence's own and the edit fails. Errors: kNoSpace,
  // kWindowLost.
  Status ReplaceLists(std::uint32_t index, std::span<const Segment> segments,
                      std::uint32_t pristine_cells, const NewState& state, std::uint32_t cells = 0,
                      const layout::SequenceRecord* cross_source = nullptr) KVD_REQUIRES(mutex_);
  void BuildPieces(std::uint32_t group, std::span<const Segment> segments) KVD_REQUIRES(mutex_);
  // The rewrite's fresh cells of a group.
  static void AppendRewritten(const CellRewrite& rewrite, std::uint32_t group,
                              std::vector<Piece>* pieces);
  // Puts the record in one commit, then counts its slots and checkpoints; `cells` is what an
  // applied request is answered. Errors: kNoSpace.
  Status CommitRecord(std::uint32_t index, const layout::SequenceRecord& record,
                      std::uint32_t cells = 0) KVD_REQUIRES(mutex_);
  // Adds the request that a verb was called for to the commit that is being put together.
  void PutApplied(SequenceHandle sequence, std::uint32_t cells, std::size_t created = 0,
                  layout::AppliedState state = layout::kAppliedEnded) KVD_REQUIRES(mutex_);
  // A verb that finds nothing to change: remembers its request all the same.
  Status CommitNothing(SequenceHandle sequence) KVD_REQUIRES(mutex_);
  // The record's tokens are not those that its last request computed any more, if a client asked
  // for this edit.
  void EndRequest(layout::SequenceRecord* record) const KVD_REQUIRES(mutex_);
  // The counts of a group's old pieces replaced by those of its new ones.
  void RecountPieces(std::uint32_t group, Holder holder) KVD_REQUIRES(mutex_);
  void RecountSlots(const layout::SequenceRecord& old, const layout::SequenceRecord& record,
                    Holder holder) KVD_REQUIRES(mutex_);
  // Writes `count` forks of the first cell_count cells of `source` as records ready to be put;
  // lists are allocated.
  Status PrepareForks(const layout::SequenceRecord& source, const SequenceOwner& owner,
                      std::uint32_t flags, std::uint32_t cell_count, const NewState& state,
                      std::size_t count) KVD_REQUIRES(mutex_);
  // Copies of the source's lists, as far as the record's counts go, and checkpoints_. Errors:
  // kNoSpace.
  Status WriteForkLists(const layout::SequenceRecord& source, layout::SequenceRecord* record)
      KVD_REQUIRES(mutex_);
  void FreeLists(const layout::SequenceRecord& record) KVD_REQUIRES(mutex_);
  void UndoForks() KVD_REQUIRES(mutex_);
  // After the commit: counts the forks; returns the first one's handle and all of them in
  // `handles`, unless that is empty.
  SequenceHandle AdoptForks(std::span<SequenceHandle> handles) KVD_REQUIRES(mutex_);
  // Drops dropped_ in one commit. Errors: kNoSpace (more than one record holds).
  Status DropCollected() KVD_REQUIRES(mutex_);
  // Puts a record with another owner or other flags, then counts it as they say. Errors: kNoSpace.
  Status PutOwner(std::uint32_t index, const layout::SequenceRecord& record) KVD_REQUIRES(mutex_);
  // Whom a committed record's flags make the holder of its blocks, and whether it may be evicted.
  // SettleFreed is the caller's.
  void FollowFlags(std::uint32_t index) KVD_REQUIRES(mutex_);
  // After the commit that freed it.
  void ForgetSequence(std::uint32_t index) KVD_REQUIRES(mutex_);
  // Shifts the cells of a range without looking at each list of pieces; false: the range cuts an
  // extent, or a shifted one could join its neighbour, or there are several groups. Errors:
  // kNoSpace (lists). REQUIRES: the cells may have the positions that they get.
  Result<bool> ShiftWholeExtents(const Found& found, CellRange shifted, std::int32_t delta)
      KVD_REQUIRES(mutex_);
  // Keeps the first cell_count cells, and sets flags in the same commit.
  Status CutTail(std::uint32_t index, std::uint32_t cell_count, std::uint32_t flags_set = 0)
      KVD_REQUIRES(mutex_);
  // What kept the cross groups of both sequences apart, if they are: see CopyRange.
  Status CheckCross(const layout::SequenceRecord& from, const layout::SequenceRecord& to) const
      KVD_REQUIRES(mutex_);
  void SettleFreed() KVD_REQUIRES(mutex_);
  void ReturnUnusedSlabs();

  // ---- recurrent state
  static constexpr std::size_t kCheckpointsMax = 16;  // of one sequence
  // checkpoints_ = those of `source` up to cell_count, and one there if there is room for it.
  void CollectCheckpoints(const layout::SequenceRecord& source, std::uint32_t cell_count,
                          std::uint32_t state_slot) KVD_REQUIRES(mutex_);
  // Gives up checkpoints, the least useful ones over all sequences first, until that many state
  // slots are free or no checkpoint is left that holds a slot alone.
  void GiveUpCheckpoints(std::uint32_t slots_wanted) KVD_REQUIRES(mutex_);
  void ScoreCheckpoints() KVD_REQUIRES(mutex_);
  void DropVictims(std::uint32_t score_max) KVD_REQUIRES(mutex_);
  // The next sequence in turn that has a row loses it, until one is free.
  void GiveUpLogits() KVD_REQUIRES(mutex_);
  // Makes sure of `wanted` free state slots. Errors: kNoSpace, with nothing given up.
  Status FindStates(std::uint32_t wanted, bool may_evict) KVD_REQUIRES(mutex_);
  // State slots that checkpoints alone hold and nobody reads.
  std::uint32_t CountSpareStates() const KVD_REQUIRES(mutex_);
  // The lists, tokens and positions of a rewind. Errors: kWindowLost.
  Status FillRewind(const layout::SequenceRecord& record, CellRange removed, Rewind* rewind)
      KVD_REQUIRES(mutex_);
  void ReleaseRewind(Rewind* rewind) KVD_REQUIRES(mutex_);
  Status TryBeginRewind(SequenceHandle handle, PosRange range, Rewind* rewind);

  // After kNoSpace: waits until no brief hold is left. False: there was none, or another outcome.
  bool AwaitBriefHolds(const Status& refused);

  // ---- restores
  Status CheckRestore(const RestoreRequest& request) const KVD_REQUIRES(mutex_);
  // The sequence, if it is empty. Errors: kNotFound, kPermission, kExists.
  Result<Found> FindEmpty(SequenceHandle handle) const KVD_REQUIRES(mutex_);
  Status TryBeginRestore(const RestoreRequest& request, Restore* restore);
  Status ReserveRestored(const RestoreRequest& request, Restore* restore)
      KVD_REQUIRES(growth_mutex_, mutex_);
  void ReserveRestoredSlots(const RestoreRequest& request, Restore* restore) KVD_REQUIRES(mutex_);
  // Makes the bytes of what was reserved safe to write, a little at a time.
  Status GrowForRestore(const Restore& restore);
  void WriteRestoredCells(const RestoreRequest& request, const Restore& restore);
  Status CommitRestored(std::uint32_t index, const Restore& restore) KVD_REQUIRES(mutex_);
  void ReleaseRestore(Restore* restore) KVD_REQUIRES(mutex_);

  // ---- prefix sharing
  // The prefix index and the table of owners say what the record says. After every commit of a
  // record.
  void SyncPrefix(std::uint32_t index) KVD_REQUIRES(mutex_);
  // Of a sequence that was just published.
  void IndexPublished(std::uint32_t index, bool is_public) KVD_REQUIRES(mutex_);
  void IndexRecord(std::uint32_t index, const PrefixSpace& space) KVD_REQUIRES(mutex_);
  void IndexFork(std::uint32_t index, std::uint32_t source) KVD_REQUIRES(mutex_);
  // All of it anew, from `meta`.
  void RebuildPrefixes() KVD_REQUIRES(mutex_);
  struct PrefixFound;
  PrefixFound FindBestPrefix(const SequenceOwner& owner, std::span<const TokenId> tokens) const
      KVD_REQUIRES(mutex_);
  // `depth`, or 0 if one of the sequence's windows does not reach so far back.
  std::uint32_t GivableCells(std::uint32_t index, std::uint32_t depth) const KVD_REQUIRES(mutex_);
  PrefixLimit WhyNotMore(const SequenceOwner& owner, std::span<const TokenId> tokens,
                         const PrefixFound& found) const KVD_REQUIRES(mutex_);
  // Whether all its cells are the first ones of `tokens`. REQUIRES: no more cells than tokens.
  bool HoldsTokens(const layout::SequenceRecord& record, std::span<const TokenId> tokens) const
      KVD_REQUIRES(mutex_);
  bool IsBehindEdit(const PrefixIndex::Match& match, std::span<const TokenId> tokens) const
      KVD_REQUIRES(mutex_);
  PrefixOrigin OriginOf(std::uint32_t index) const KVD_REQUIRES(mutex_);
  void NoteRetained(std::uint32_t index) KVD_REQUIRES(mutex_);  // after a change of flags
  Result<bool> RetainFound(std::uint32_t index) KVD_REQUIRES(mutex_);
  // Whether other retained sequences hold the same tokens, so that nothing is lost without it.
  bool IsRetainedElsewhere(std::uint32_t index) const KVD_REQUIRES(mutex_);

  // ---- eviction. What is to be free; retained sequences make room for it.
  struct Need {
    std::array<std::uint64_t, layout::kGroupsMax> blocks = {};
    std::uint32_t states = 0;
    std::uint32_t sequences = 0;
    std::uint32_t list_units = 0;
    // Blocks that were evicted for it and are not free yet.
    std::array<std::uint64_t, layout::kGroupsMax> evicted = {};
  };
  static constexpr std::array<std::uint32_t, 2> kNoneKept = {layout::kNoSlot, layout::kNoSlot};
  bool IsMet(const Need& need) const KVD_REQUIRES(mutex_);
  bool CanBeMet(const Need& need) const KVD_REQUIRES(mutex_);  // but for lists
  // Evicts until the need is met, none of `kept`; nothing if it cannot be met. REQUIRES: no fork
  // is prepared and no part of a step being reserved.
  void MakeRoom(const Need& need, std::array<std::uint32_t, 2> kept = kNoneKept)
      KVD_REQUIRES(mutex_);
  void MakeRoomForLists(std::array<std::uint32_t, 2> kept = kNoneKept) KVD_REQUIRES(mutex_);
  // Puts a retained, unpinned sequence to its place in the order.
  void PutInOrder(std::uint32_t index) KVD_REQUIRES(mutex_);
  // After the index changed: those that hold more or fewer tokens alone now.
  void FollowShared() KVD_REQUIRES(mutex_);
  void NoteUse(std::uint32_t index) KVD_REQUIRES(mutex_);
  void Evict(std::uint32_t index) KVD_REQUIRES(mutex_);
  Status DropIndex(std::uint32_t index) KVD_REQUIRES(mutex_);
  Need NeedOf(std::span<const AppendRequest> requests) const KVD_REQUIRES(mutex_);

  // ---- defragmentation
  struct Moves;
  struct MovedList;
  void ChooseSources(std::uint32_t cells_max, Moves* moves) const KVD_REQUIRES(mutex_);
  // visit(index, view) for the lists of a group, by sequence; the mutex is held in portions. Errors:
  // visit's, which end it.
  template <class Visit>
  Status VisitLists(std::uint32_t group, const Visit& visit) KVD_EXCLUDES(mutex_);
  void PlaceCells(Moves* moves) KVD_REQUIRES(growth_mutex_) KVD_EXCLUDES(mutex_);
  // edits_ of the group with the moved cells where they are now; false: the list has none of them.
  bool MapPieces(const ExtentView& view, Moves* moves) KVD_REQUIRES(mutex_);
  Status CopyCells(const Moves& moves, CellMover& mover) KVD_REQUIRES(growth_mutex_);
  Status WriteMovedLists(Moves* moves) KVD_EXCLUDES(mutex_);
  // A sequence that has changed since its list was written gets another one if there is room for it.
  void CommitMovedList(const MovedList& written, Moves* moves) KVD_REQUIRES(mutex_);
  Status RewriteLists(Moves* moves) KVD_EXCLUDES(mutex_);

  // ---- steps
  // Where the new cells of one group of one sequence go.
  struct NewCells {
    std::uint32_t tail_count = 0;   // into the free tail of the last block
    std::uint32_t fresh_count = 0;  // into fresh blocks
    std::uint32_t fresh_blocks = 0;
  };
  void BeginRead() KVD_REQUIRES(mutex_);
  void EndRead() KVD_REQUIRES(mutex_);
  Status CheckAppend(const AppendRequest& request, Found* found) const KVD_REQUIRES(mutex_);
  Status CheckListRoom(const layout::ListRoot& root, std::uint32_t fresh_blocks) const
      KVD_REQUIRES(mutex_);
  static std::uint32_t CountNewCells(const AppendRequest& request);
  NewCells PlanAppend(const layout::SequenceRecord& record, std::uint32_t group,
                      std::uint32_t new_cells) const KVD_REQUIRES(mutex_);
  Status TryReserve(std::span<const AppendRequest> requests, StepPlan* plan, std::size_t* failed);
  Status ReservePart(const AppendRequest& request, const Found& found, StepSequence* part)
      KVD_REQUIRES(growth_mutex_, mutex_);
  Status ReserveGroup(const layout::SequenceRecord& record, std::uint32_t group,
                      std::uint32_t new_cells, GroupPart* part) KVD_REQUIRES(growth_mutex_, mutex_);
  Status ReserveStates(StepPlan* plan, std::size_t* failed) KVD_REQUIRES(mutex_);
  Status GrowPool(const StepPlan& plan, std::size_t* failed) KVD_REQUIRES(growth_mutex_);
  void UndoReserve(StepPlan* plan) KVD_REQUIRES(mutex_);
  void WriteCells(const StepSequence& part, std::uint32_t group);
  void WriteCell(std::uint32_t group, std::uint32_t block, std::uint32_t cell, TokenId token,
                 std::int32_t stored_pos, std::uint32_t key_form);
  // The list of one group with the part's new cells, without its first `dropped` extents. Errors:
  // kNoSpace.
  Result<layout::ListRoot> AppendToList(const layout::SequenceRecord& old, std::uint32_t group,
                                        const GroupPart& part, std::size_t dropped)
      KVD_REQUIRES(mutex_);
  // The record's lists with the part's new cells, and edits_ to recount. Errors: kNoSpace.
  Status AppendGroups(const layout::SequenceRecord& old, const StepSequence& part,
                      layout::SequenceRecord* record) KVD_REQUIRES(mutex_);
  std::size_t CountOutOfReach(std::uint32_t group, const GroupPart& part,
                              std::int64_t next_pos) const KVD_REQUIRES(mutex_);
  // A step of that request appends to the record, which had past_cells.
  static void MarkRequest(const AppliedRequest& applied, std::uint32_t past_cells,
                          layout::SequenceRecord* record);
  void ReleaseGroup(const GroupPart& part, std::uint32_t group) KVD_REQUIRES(mutex_);
  void ReleasePart(StepPlan& plan, std::size_t index) KVD_REQUIRES(mutex_);
  // The cells of a rewrite; none: nothing is to be rewritten.
  Status PlanRewrite(const Found& found, const RewriteRequest& request, CellRewrite* rewrite)
      KVD_REQUIRES(mutex_);
  Status PlanDivision(const Found& found, PosRange range, CellRewrite* division) const
      KVD_REQUIRES(mutex_);
  Status PlanSettling(const Found& found, SettleScope scope, CellRewrite* settling) const
      KVD_REQUIRES(mutex_);
  Status PlanReforming(const Found& found, CellRewrite* reforming) KVD_REQUIRES(mutex_);
  // Fresh blocks for all of the cells, or none.
  Status ReserveRewritten(const Found& found, bool may_evict, CellRewrite* rewrite)
      KVD_REQUIRES(growth_mutex_, mutex_);
  Result<std::uint32_t> RewriteAll(const RewriteRequest& request, CellRotator& rotator);
  // The sequence, if its cells are those that the rewrite began with. Errors: kConflict.
  Result<Found> FindRewritten(const CellRewrite& rewrite) const KVD_REQUIRES(mutex_);
  Status RotateCells(CellRewrite& rewrite, std::uint32_t group, std::span<const Piece> sources,
                     CellRotator& rotator) KVD_REQUIRES(growth_mutex_);
  Status CommitRewrite(const CellRewrite& rewrite) KVD_REQUIRES(mutex_);
  void ReleaseRewrite(CellRewrite* rewrite) KVD_REQUIRES(mutex_);

  MemorySegments segments_;
  // Its records and lists: mutex_. Cells are written by whoever has reserved them, under no mutex.
  MetaView meta_;

  mutable Mutex growth_mutex_;
  mutable Mutex mutex_ KVD_ACQUIRED_AFTER(growth_mutex_);
  std::uint32_t brief_holds_ KVD_GUARDED_BY(mutex_) = 0;
  CondVar brief_hold_ended_;
  DerivedTables tables_ KVD_GUARDED_BY(mutex_);
  std::vector<BlockAllocator> allocators_ KVD_GUARDED_BY(mutex_);  // by group
  SlotAllocator states_ KVD_GUARDED_BY(mutex_);
  SlotAllocator logits_ KVD_GUARDED_BY(mutex_);
  CommitLog log_ KVD_GUARDED_BY(mutex_);
  // By sequence: raised by edits of its cells, not by a change of owner.
  std::vector<std::uint64_t> content_numbers_ KVD_GUARDED_BY(mutex_);
  // By sequence: content number of its last step.
  std::vector<std::uint64_t> computed_numbers_ KVD_GUARDED_BY(mutex_);
  // By sequence: the form that all its keys have, known for one content. So a step of a model with
  // two rotations need not look at every cell.
  struct KnownForm {
    std::uint64_t content_number = ~std::uint64_t{0};
    std::uint32_t key_form = 0;
    friend bool operator==(const KnownForm&, const KnownForm&) = default;
  };
  std::vector<KnownForm> known_forms_ KVD_GUARDED_BY(mutex_);
  std::vector<Holder> holders_ KVD_GUARDED_BY(mutex_);  // by sequence: how it is counted in tables_
  std::vector<OpenPart> open_parts_ KVD_GUARDED_BY(mutex_);  // by index of the step's plan
  bool step_is_running_ KVD_GUARDED_BY(mutex_) = false;
  // Scratch, kept so that verbs do not allocate.
  std::array<GroupEdit, layout::kGroupsMax> edits_ KVD_GUARDED_BY(mutex_);
  std::vector<Piece> moved_pieces_ KVD_GUARDED_BY(mutex_);
  FreedParts freed_ KVD_GUARDED_BY(mutex_);
  std::vector<std::uint32_t> dropped_ KVD_GUARDED_BY(mutex_);
  std::vector<Found> found_ KVD_GUARDED_BY(mutex_);
  struct PreparedFork {
    std::uint32_t index = 0;
    layout::SequenceRecord record = {};
  };
  std::vector<PreparedFork> forks_ KVD_GUARDED_BY(mutex_);
  std::vector<layout::Checkpoint> checkpoints_ KVD_GUARDED_BY(mutex_);
  std::vector<std::uint32_t> slot_scores_ KVD_GUARDED_BY(mutex_);  // by state slot
  std::vector<std::uint32_t> scores_ KVD_GUARDED_BY(mutex_);
  mutable std::vector<std::uint64_t> block_marks_ KVD_GUARDED_BY(mutex_);
  mutable std::vector<std::uint64_t> sequence_marks_ KVD_GUARDED_BY(mutex_);
  mutable std::uint64_t mark_ KVD_GUARDED_BY(mutex_) = 0;
  mutable Looks looks_ KVD_GUARDED_BY(mutex_);
  const AppliedRequest* applying_ KVD_GUARDED_BY(mutex_) = nullptr;  // see Applying
  const AppliedRequest* taking_ KVD_GUARDED_BY(mutex_) = nullptr;    // TakePrefix is at work for it
  std::uint32_t logits_victim_ KVD_GUARDED_BY(mutex_) = 0;
  PrefixIndex prefixes_ KVD_GUARDED_BY(mutex_);
  // Of forks_: index of the record; kNoSlot: none.
  std::uint32_t fork_source_ KVD_GUARDED_BY(mutex_) = layout::kNoSlot;
  EvictionOrder retained_ KVD_GUARDED_BY(mutex_);  // unpinned ones
  bool evicts_ KVD_GUARDED_BY(mutex_) = true;
  // By sequence: use number, 0: before this process.
  std::vector<std::uint64_t> last_uses_ KVD_GUARDED_BY(mutex_);
  std::uint64_t use_number_ KVD_GUARDED_BY(mutex_) = 0;
  EvictedPrefixes evicted_ KVD_GUARDED_BY(mutex_);
  PrefixCounters prefix_counters_ KVD_GUARDED_BY(mutex_);
  std::vector<TokenId> tokens_ KVD_GUARDED_BY(mutex_);  // scratch of the index
  std::vector<std::uint32_t> points_ KVD_GUARDED_BY(mutex_);
  std::uint32_t open_rewinds_ KVD_GUARDED_BY(mutex_) = 0;
};

}  // namespace kvd
