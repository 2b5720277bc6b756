// Memory: all cached state of one model, as sequences of immutable cells. The verbs are the same
// for every memory kind.
//
// One object per daemon, over two mappings (`pool` and `meta`, see shm/segment_layout.h). It is the
// only writer of both. Threads: every method may be called from any thread; a mutex inside is held
// for microseconds and never while a kernel runs. The engine thread alone calls Reserve, Commit,
// Abandon and DividePositions, one step at a time.
//
// Invariants: a committed cell is never written again; every change of what is committed goes
// through one CommitLog commit (all of it or nothing); a method that returns an error has changed
// nothing; what is derived (reference counts, free lists, fill levels) can be rebuilt from `meta`
// alone at any moment between two calls.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/memory/extents.h"
#include "engine/memory/owner_table.h"
#include "engine/memory/session_store.h"
#include "shm/error.h"
#include "shm/ids.h"
#include "shm/prefix_reuse.h"
#include "shm/segment_layout.h"

namespace kvd {

struct SequenceOwner {
  std::uint32_t uid = 0;
  SessionId session = SessionId::kNone;
  std::uint64_t namespace_salt = 0;
};

struct SequenceInfo {
  SequenceHandle handle = SequenceHandle::kNone;
  SequenceOwner owner;
  std::uint32_t flags = 0;  // layout::SequenceFlags
  bool is_public = false;   // of a snapshot that every uid may see
  std::uint32_t cell_count = 0;
  std::uint32_t pristine_cells = 0;
  std::uint32_t extent_count = 0;  // of group 0
  std::uint32_t cross_cells = 0;   // of the encoded text; 0: none is encoded
  std::uint32_t checkpoint_count = 0;
  Pos first_pos;  // of the first cell; 0 when empty
  Pos next_pos;
  std::uint64_t created_unix_ms = 0;
  std::uint64_t edit_number = 0;
  // The last request that computed tokens of it, and where they begin; nullopt: its cells were
  // edited since.
  SessionId request_session = SessionId::kNone;
  RequestId request{};
  std::optional<std::uint32_t> request_first_cell;
  layout::SamplerRecord sampler{};  // of its last drawn tokens; flags 0: none is kept
};

// What takes a look at every extent of a sequence: 10 to 20 us for 32,768 cells.
struct SequenceUse {
  std::uint32_t shared_cells = 0;  // also referred to by another sequence
  std::uint32_t delta_count = 0;   // distinct deltas
  std::int64_t delta_max = 0;      // the largest |delta|
};

struct SnapshotInfo {
  std::string name;
  SequenceHandle sequence = SequenceHandle::kNone;
  std::uint32_t owner_uid = 0;
  bool is_public = false;
  std::uint64_t published_unix_ms = 0;
};

// Blocks of one group, of kBlockCells cells each.
struct GroupUsage {
  std::uint32_t total_blocks = 0;
  std::uint32_t free_blocks = 0;
  std::uint32_t reclaimable_blocks = 0;  // held by retained, unpinned sequences alone
  std::uint64_t live_cells = 0;          // cells some sequence refers to, each counted once
};

struct PoolUsage {  // blocks and cells: of group 0
  std::uint32_t total_blocks = 0;
  std::uint32_t free_blocks = 0;
  std::uint32_t reclaimable_blocks = 0;  // held by retained, unpinned sequences alone
  std::uint32_t live_sequences = 0;
  std::uint32_t sequence_capacity = 0;
  std::uint64_t live_cells = 0;      // cells some sequence refers to, each counted once
  std::uint64_t reserved_bytes = 0;  // of the pool file that the system has reserved for us
  std::uint64_t list_units_free = 0;
  // Recurrent state; all 0 for models without.
  std::uint32_t state_slots = 0;
  std::uint32_t free_state_slots = 0;
  std::uint32_t checkpoint_slots = 0;  // held by checkpoints
  std::uint32_t logits_rows = 0;
  std::uint32_t free_logits_rows = 0;
  std::uint32_t reclaimable_state_slots = 0;  // held by retained, unpinned sequences alone
  std::uint32_t retained_sequences = 0;       // unpinned ones
  // Every group, group 0 once more.
  std::uint32_t group_count = 0;
  std::array<GroupUsage, layout::kGroupsMax> groups = {};
};

// A prompt that begins a sequence.
struct PrefixRequest {
  // Empty, or holding the prompt's first cells by an earlier TakePrefix.
  SequenceHandle destination = SequenceHandle::kNone;
  std::span<const TokenId> tokens;  // all of the prompt
  AppliedRequest applied{};         // whose prompt it is, as AppendRequest's
  // The sequence that was read from disk for this prompt: what is taken of it is kDisk.
  SequenceHandle loaded = SequenceHandle::kNone;
};
struct PrefixTaken {
  std::uint32_t cells = 0;   // that the destination holds now
  std::uint32_t common = 0;  // that some sequence has in common; more than cells if not to be taken
  PrefixOrigin origin = PrefixOrigin::kNone;  // of the last cells taken; kNone: none were
  PrefixLimit limit = PrefixLimit::kNone;
  SequenceHandle source = SequenceHandle::kNone;
};
struct PrefixCounters {
  std::array<std::uint64_t, kPrefixOrigins> tokens_reused = {};  // by PrefixOrigin
  std::uint64_t evictions = 0;                                   // sequences
  std::uint64_t tokens_evicted = 0;                              // that nothing else held
};

// Called with one live sequence after another while the memory is locked: microseconds, no verbs.
class SequenceVisitor {
 public:
  virtual ~SequenceVisitor() = default;
  // `extents`: of group 0; valid during the call.
  virtual void Visit(const SequenceInfo& info, std::uint32_t shared_cells,
                     std::uint32_t checkpoint_count, std::span<const layout::Extent> extents) = 0;
};

// The cells of one block group that a step's sequence sees, and where its new ones go.
struct GroupPart {
  // Over past and new cells together, in order; `start` is the ordinal in the sequence, also in a
  // window group, whose first extent starts at first_cell. New cells have the delta of the last
  // past extent of group 0 (0 for an empty sequence).
  std::vector<layout::Extent> extents;
  std::uint32_t first_cell = 0;        // ordinal of the first cell that the group still holds
  std::uint32_t cell_count = 0;        // ordinal behind the last cell, new ones included
  std::uint32_t first_new_extent = 0;  // index of the extent that holds the first new cell;
                                       // extents.size() where the group gets no new cell
  ExtentView view() const { return {extents, cell_count}; }
};

// One sequence's part of a step: what its new tokens see, and where their cells and state go. Valid
// from Reserve until Commit or Abandon of the whole step. Extents are copies: metadata verbs may go
// on meanwhile.
struct StepSequence {
  SequenceHandle handle = SequenceHandle::kNone;
  std::uint32_t past_cells = 0;  // committed cells before the new ones
  std::uint32_t new_cells = 0;
  Pos first_new_pos;  // effective position of the first new token
  // By block group. Groups without a window hold past_cells + new_cells cells; the cross group
  // holds those of the encoded text and gets none.
  std::array<GroupPart, layout::kGroupsMax> groups;
  AppliedRequest applied;           // whose tokens they are
  layout::SamplerRecord sampler{};  // of AppendRequest
  // Recurrent state before the first new token (kNoSlot: zeros) and where the one behind the last
  // is written, all of it: Memory::StateBytes. Both kNoSlot for a model without state.
  std::uint32_t state_from = layout::kNoSlot;
  std::uint32_t state_to = layout::kNoSlot;
  std::vector<TokenId> tokens;    // the new tokens
  std::uint32_t key_form = 0;     // of the new cells; the engine sees to it that all past ones have
                                  // it too
  std::uint64_t edit_number = 0;  // of the record when reserved
};

struct AppendRequest {
  SequenceHandle handle = SequenceHandle::kNone;
  Pos pos;                          // must be the sequence's next position
  std::span<const TokenId> tokens;  // at least one; range-checked by the caller
  std::uint32_t key_form = 0;       // layout::CellRecord::key_form of the new cells
  // Whose tokens they are: committed with them, so that the request can be gone on with.
  AppliedRequest applied{};
  // What drew the last one, kept from this commit on; flags 0: the sequence's own stays.
  layout::SamplerRecord sampler{};
};

// The plan of one step. Reused from step to step so that nothing is allocated per token.
struct StepPlan {
  std::vector<StepSequence> sequences;  // [0, count)
  std::size_t count = 0;
};

// A removal from a sequence whose recurrent state has to be computed again: the tokens behind the
// nearest checkpoint are replayed, then CommitRewind changes list and state together. Its slots
// stay what they are until the rewind is committed or abandoned.
struct Rewind {
  SequenceHandle handle = SequenceHandle::kNone;
  PosRange range;
  std::uint32_t removed_cells = 0;
  // The lists as they will be, by block group; nothing of them is new.
  std::array<GroupPart, layout::kGroupsMax> groups;
  std::uint32_t cell_count = 0;   // of group 0
  std::uint32_t replay_from = 0;  // its first cell to be replayed
  std::vector<TokenId> tokens;    // of the cells [replay_from, cell_count)
  std::vector<Pos> positions;
  std::uint32_t state_from = layout::kNoSlot;  // before the first of them; kNoSlot: zeros
  std::array<std::uint32_t, 2> slots = {layout::kNoSlot, layout::kNoSlot};  // written in turns
  // Kept by whoever replays: how many tokens are done, and the slot that has the state after them.
  std::size_t done = 0;
  std::uint32_t last_slot = layout::kNoSlot;
  std::uint64_t content_number = 0;  // of the sequence, for the commit
  AppliedRequest applied;            // whose removal it is, remembered with the commit
};

// Rewrites the K rows of one cell of a group while positions are divided: reads the cell at
// `source`, whose K is rotated for stored position `from`, and writes it to `destination` rotated
// for `to` (V copied). Given by the engine.
class CellRotator {
 public:
  virtual ~CellRotator() = default;
  virtual Status RotateCell(std::uint32_t group, BlockId source_block, std::uint32_t source_cell,
                            Pos from, BlockId destination_block, std::uint32_t destination_cell,
                            Pos to) = 0;
};

// Copies the bytes of cells that lie side by side in one block of a group to another one, as they
// are. Given by the engine.
class CellMover {
 public:
  virtual ~CellMover() = default;
  virtual void MoveCells(std::uint32_t group, BlockId source_block, std::uint32_t source_cell,
                         BlockId destination_block, std::uint32_t destination_cell,
                         std::uint32_t count) = 0;
};

// What one slice of a defragmentation did.
struct DefragSlice {
  std::uint64_t cells_moved = 0;
  std::uint32_t sequences_rewritten = 0;
  std::uint32_t blocks_freed = 0;
  std::uint64_t bytes_returned = 0;       // to the system
  std::chrono::nanoseconds returning{0};  // what giving them back took of the slice's time
  bool is_done = false;                   // nothing is left to pack
};

struct SequenceHold;  // engine/memory/hold_and_restore.h
struct RestoreRequest;
struct Restore;
struct RewriteRequest;  // engine/memory/cell_rewrite.h
struct CellRewrite;

class Memory : public SessionStore {
 public:
  // ---- sequences. `applied`: the request that a verb is called for is remembered in the verb's own
  // commit, also where the verb finds nothing to change.
  // Errors: kNoSpace (sequence table full).
  virtual Result<SequenceHandle> Create(const SequenceOwner& owner,
                                        const AppliedRequest& applied = {}) = 0;
  // kNeedsReplay of this and of the edits: recurrent models, see BeginRewind.
  // Makes handles.size() sequences that refer to the cells [0, cell_count) of `source` (all if
  // nullopt), all or none. Errors: kNotFound, kInvalidArgument (no handles, more than kForksMax,
  // cell_count > source's), kNoSpace (sequences, lists).
  virtual Status Fork(SequenceHandle source, const SequenceOwner& owner,
                      std::span<SequenceHandle> handles,
                      std::optional<std::uint32_t> cell_count = std::nullopt,
                      const AppliedRequest& applied = {}) = 0;
  // Frees the handle and its references. Errors: kNotFound; kPermission (published: see Unpublish).
  virtual Status Drop(SequenceHandle handle, const AppliedRequest& applied = {}) = 0;
  // Frees all of the handles in one commit, or none. Errors: kNotFound; kPermission;
  // kInvalidArgument (a handle twice); kNoSpace (more than one commit record holds: some 40,000).
  virtual Status DropAll(std::span<const SequenceHandle> handles,
                         const AppliedRequest& applied = {}) = 0;
  // Drops every sequence of `session` but `kept`; published ones stay. Errors: kNotFound,
  // kPermission (kept is another's).
  virtual Status Keep(SequenceHandle kept, SessionId session,
                      const AppliedRequest& applied = {}) = 0;

  // ---- edits. All errors of the ranges: kInvalidArgument (begin > end, begin < 0). kPermission:
  // published sequences. kNoSpace: a list that is rewritten finds no room in the list arena.
  // Positions are 0 to INT32_MAX - 1, so that the next one is a position too. A range without cells
  // changes nothing and is no edit. kWindowLost: a token behind the edited sequence would reach
  // cells that a window group has dropped.
  // Removes the cells with positions in range; holes stay, the next position becomes last + 1.
  // Returns cells removed.
  virtual Result<std::uint32_t> RemoveRange(SequenceHandle handle, PosRange range,
                                            const AppliedRequest& applied = {}) = 0;
  virtual Status Clear(SequenceHandle handle, const AppliedRequest& applied = {}) = 0;
  // Adds references to source's cells in range, at their positions. Errors: kExists (destination
  // holds a position inside
  // [first, last] of what is copied), kNoSpace. source == destination is kInvalidArgument;
  // kUnsupported: a model with state copies the source's first cells into an empty sequence only, a
  // model with a cross group into one without an encoded text or with the same one. Returns cells
  // copied.
  virtual Result<std::uint32_t> CopyRange(SequenceHandle source, SequenceHandle destination,
                                          PosRange range, const AppliedRequest& applied = {}) = 0;
  // Shifts positions in range by delta: metadata only. Errors: kInvalidArgument (overlap, reorder,
  // below 0, overflow).
  virtual Status AddPositions(SequenceHandle handle, PosRange range, std::int32_t delta,
                              const AppliedRequest& applied = {}) = 0;
  // Divides positions in range by divisor (> 0), through fresh cells. Returns cells rewritten (0
  // for divisor 1). A step of its own: engine thread, none in progress. Errors: kNoSpace,
  // kInvalidArgument (before a cell outside), kConflict, the rotator's.
  virtual Result<std::uint32_t> DividePositions(SequenceHandle handle, PosRange range,
                                                std::int32_t divisor, CellRotator& rotator,
                                                const AppliedRequest& applied = {}) = 0;
  // Rewrites cells into fresh ones that are stored at their effective positions, so that no delta
  // is left. kShifted: the shortest run of cells that holds all shifted ones; kAll: every cell, if
  // any is shifted. Returns cells rewritten; 0: none was shifted. A step of its own, as dividing.
  // Errors: kNotFound, kPermission, kNoSpace, kConflict, the rotator's.
  enum class SettleScope : std::uint8_t { kShifted, kAll };
  virtual Result<std::uint32_t> Settle(SequenceHandle handle, SettleScope scope,
                                       CellRotator& rotator) = 0;
  // Rewrites the shortest run of cells that holds all whose keys have another form into fresh ones
  // of this form, stored at their effective positions. Returns cells rewritten. A step of its own,
  // with the errors of Settle; kInvalidArgument (a form that is none).
  virtual Result<std::uint32_t> ChangeKeyForm(SequenceHandle handle, std::uint32_t key_form,
                                              CellRotator& rotator) = 0;
  // What the three above do at once, in slices: steps and verbs may come in between. Finds the cells
  // and the fresh blocks; with nothing to rewrite the rewrite is over at once. Engine thread. Errors:
  // those of the three but kConflict and the rotator's; nothing has changed then.
  virtual Status BeginRewrite(const RewriteRequest& request, CellRewrite* rewrite) = 0;
  // How many cells that would rewrite. Errors: BeginRewrite's but kNoSpace.
  virtual Result<std::uint32_t> CountRewritten(const RewriteRequest& request) = 0;
  // Rewrites up to cells_max cells, at least one; the last slice commits. A step of its own, as
  // dividing. Returns whether the rewrite is over. Errors: kConflict (the sequence was changed or
  // dropped), kNoSpace, kWindowLost, the rotator's; the rewrite is over then and nothing has changed.
  virtual Result<bool> RewriteSlice(CellRewrite& rewrite, std::uint32_t cells_max,
                                    CellRotator& rotator) = 0;
  // REQUIRES: the rewrite is open.
  virtual void AbandonRewrite(CellRewrite& rewrite) = 0;
  // Packs the cells of some sparse blocks of one group, about cells_max of them, and gives the
  // system back what is unused then. A step of its own, as dividing. Deltas, positions and what is
  // shared stay. Errors: kNoSpace (lists, bytes of the pool); nothing has changed then.
  virtual Result<DefragSlice> Defragment(std::uint32_t cells_max, CellMover& mover) = 0;
  // Hands the sequence to another owner or changes its flags (kSequenceRetained, kSequencePinned).
  // No conflict for a step. Errors: kNotFound, kPermission, kInvalidArgument (other flags, or one
  // both ways).
  virtual Status SetOwner(SequenceHandle handle, const SequenceOwner& owner,
                          std::uint32_t flags_set, std::uint32_t flags_clear,
                          const AppliedRequest& applied = {}) = 0;

  // Keeps a sampler (or none: flags 0) as if it had drawn the sequence's last token. No conflict for
  // a step. Errors: kNotFound, kPermission.
  virtual Status SetSampler(SequenceHandle handle, const layout::SamplerRecord& sampler) = 0;

  // ---- snapshots
  // Publishes a fork of `source` under `name` (validated by the caller). Returns the snapshot's
  // sequence. An existing name is kExists unless `replace` (then the old snapshot's sequence is
  // dropped in the same commit; forks of it live on).
  virtual Result<SequenceHandle> Publish(SequenceHandle source, const SequenceOwner& owner,
                                         std::string_view name, bool is_public, bool replace,
                                         const AppliedRequest& applied = {}) = 0;
  virtual Status Unpublish(std::string_view name, const AppliedRequest& applied = {}) = 0;
  virtual Result<SnapshotInfo> FindSnapshot(std::string_view name) const = 0;
  virtual std::vector<SnapshotInfo> Snapshots() const = 0;  // by name, in portions as Sequences

  // ---- queries
  virtual Result<SequenceInfo> Query(SequenceHandle handle) const = 0;
  virtual Result<SequenceUse> QueryUse(SequenceHandle handle) const = 0;
  // Lists are put together from portions of kListedAtOnce: the mutex is free between two of them, so
  // a sequence that is made or dropped meanwhile may be in the list or not. By index.
  static constexpr std::size_t kListedAtOnce = 64;
  virtual std::vector<SequenceInfo> Sequences() const = 0;
  virtual std::vector<SequenceInfo> SequencesOf(SessionId session) const = 0;
  virtual std::vector<SequenceInfo> RetainedOf(std::uint32_t uid) const = 0;
  // What the uid's sequences hold. Does not depend on how many sequences there are.
  virtual OwnerUse UseOf(std::uint32_t uid) const = 0;
  virtual PoolUsage Usage() const = 0;
  // Tokens and effective positions of the cells [first_cell, first_cell + count) of a sequence, as
  // they were at one moment; fewer at its end. More than kCellsReadAtOnce are read without the mutex.
  static constexpr std::uint32_t kCellsReadAtOnce = 1024;
  virtual Status ReadCells(SequenceHandle handle, std::uint32_t first_cell, std::uint32_t count,
                           std::vector<TokenId>* tokens, std::vector<Pos>* positions) = 0;

  // ---- prefix sharing (prefix_verbs.cc). Every live sequence's pristine part can be taken by
  // prompts of its namespace: its owner's uid and salt; that of a snapshot by all who may see it.
  // Takes as much of the prompt as the sequences hold in common with it, all but its last token at
  // most, and no fewer than kPrefixCellsMin cells. Nothing more to take is no error.
  // Errors: kNotFound, kPermission, kConflict (the destination holds other cells), kNoSpace (lists).
  static constexpr std::uint32_t kPrefixCellsMin = 16;
  virtual Result<PrefixTaken> TakePrefix(const PrefixRequest& request) = 0;
  // What TakePrefix into an empty sequence of that owner would find.
  virtual PrefixTaken FindPrefix(const SequenceOwner& owner,
                                 std::span<const TokenId> tokens) const = 0;
  // Lets a sequence go that nobody needs any more: its pristine part stays as a retained prefix
  // until room is needed; without one, or where others retain the same tokens, it is dropped.
  // Returns whether it stays. Errors: kNotFound, kPermission (published).
  virtual Result<bool> Retain(SequenceHandle handle, const AppliedRequest& applied = {}) = 0;
  // Drops retained, unpinned sequences, those of little use first, while more than this many are
  // left. Returns how many went.
  virtual std::uint32_t LimitRetained(std::uint32_t sequences_max) = 0;
  virtual PrefixCounters prefix_counters() const = 0;

  // ---- the live map (map_view.cc)
  // Another number after every commit.
  virtual std::uint64_t commit_number() const = 0;
  // Visits the live sequences whose records have the indices [first_index, end_index), until some
  // extents_max extents have been looked at; the index to go on from. end_index: all are done.
  virtual std::uint32_t VisitSequences(std::uint32_t first_index, std::uint32_t end_index,
                                       std::size_t extents_max, SequenceVisitor& visitor) const = 0;

  // ---- steps (engine thread)
  // Finds cells and a state slot for every request, or fails changing nothing. Reserved ones belong
  // to no sequence until committed. Errors, with the numbers: kNoSpace (needed, free, reclaimable);
  // kInvalidArgument (wrong position, a sequence twice, no encoded text where the model has a cross
  // group, an encoding of a sequence with cells); kExists (encoded already); kUnsupported (no cross
  // group); kNotFound; kPermission (published).
  // `failed` (may be null) gets the index of the request at fault, if one is.
  virtual Status Reserve(std::span<const AppendRequest> requests, StepPlan* plan,
                         std::size_t* failed) = 0;
  // Appends the new cells of plan.sequences[index] to their sequence. kConflict if that was edited
  // or dropped meanwhile; kNoSpace if forks or other parts took the list room that Reserve saw. On
  // error its part is as if abandoned. REQUIRES: K and V of the new cells and the state are in the
  // pool. Window groups drop their blocks that the next token does not reach any more.
  virtual Status Commit(StepPlan& plan, std::size_t index) = 0;
  // Gives up one sequence's part of the step.
  virtual void Abandon(StepPlan& plan, std::size_t index) = 0;
  // Ends the step: every part must be committed or abandoned. Blocks freed during the step become
  // free now; plan.count is 0.
  virtual void EndStep(StepPlan& plan) = 0;

  // ---- recurrent state (engine thread)
  // Keeps the state behind the sequence's last cell, so that it can go back there. False: the model
  // has none, the sequence is empty, or there is no room for one more. Errors: kNotFound, kNoSpace.
  virtual Result<bool> KeepCheckpoint(SequenceHandle handle) = 0;
  // Keeps the row of logits of its last token; it goes with the next edit or token. False: the
  // model keeps none, or the sequence was changed since its last step.
  virtual Result<bool> KeepLogits(SequenceHandle handle, const float* row) = 0;
  // Any thread. Copies the kept row; false: there is none.
  virtual Result<bool> ReadLogits(SequenceHandle handle, float* row) const = 0;
  // What RemoveRange refused with kNeedsReplay. Errors: its own; kNoSpace (two state slots are
  // needed meanwhile, with the numbers). Other verbs and steps may come in between.
  // `rewind->applied` stays what it is.
  virtual Status BeginRewind(SequenceHandle handle, PosRange range, Rewind* rewind) = 0;
  // REQUIRES: rewind.done == rewind.tokens.size(). Errors: kConflict (the sequence was changed),
  // kNoSpace (lists); nothing has changed then. Ends the rewind either way.
  virtual Status CommitRewind(Rewind& rewind) = 0;
  virtual void AbandonRewind(Rewind& rewind) = 0;
  // A state slot in the pool: MemoryOptions::state_bytes of f32.
  virtual std::byte* StateBytes(std::uint32_t slot) = 0;
  // A row of logits in the pool: MemoryOptions::logits_bytes of f32.
  virtual std::byte* LogitsBytes(std::uint32_t slot) = 0;

  // ---- holds and restores (any thread)
  // Keeps all that the sequence consists of readable until ReleaseHold, whatever becomes of the
  // sequence. Error: kNotFound.
  virtual Status Hold(SequenceHandle handle, SequenceHold* hold) = 0;
  virtual void ReleaseHold(SequenceHold& hold) = 0;
  // Finds fresh cells and slots for the content of a sequence that is empty. They belong to no
  // sequence until CommitRestore. Errors: kNotFound; kPermission (published); kExists (it is not
  // empty); kInvalidArgument (a number of the request out of its range, by name); kWindowLost (the
  // next token would reach cells before first_cell); kUnsupported (a state or an encoded text that
  // the model does not have); kNoSpace, with the numbers.
  virtual Status BeginRestore(const RestoreRequest& request, Restore* restore) = 0;
  // Gives the sequence all of it in one commit. Errors: kConflict (the sequence was changed or
  // dropped meanwhile), kNoSpace (lists); nothing has changed then. Ends the restore either way.
  virtual Status CommitRestore(Restore& restore) = 0;
  virtual void AbandonRestore(Restore& restore) = 0;

  // ---- the bytes
  // Start of a block of a group in the pool; [layer][K|V][kv head][cell][dim]. REQUIRES: the group
  // has layers.
  virtual std::byte* BlockBytes(std::uint32_t group, BlockId block) = 0;
  // Makes the bytes of a block safe to write that a restore with grows_later has reserved. Errors:
  // kNoSpace, kIo.
  virtual Status GrowBlock(std::uint32_t group, BlockId block) = 0;
  // The records of a block of a group: kBlockCells of them. For blocks that a step's extents refer
  // to, during the step.
  virtual const layout::CellRecord* BlockCells(std::uint32_t group, BlockId block) const = 0;
};

}  // namespace kvd
