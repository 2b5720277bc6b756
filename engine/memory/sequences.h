// Sequences: creates, forks, edits, drops and lists sequences. Sequences is a part of Memory.
//
// Threads: any. Every verb has three stages: check (all argument errors are found here), write new
// lists to places that no committed record refers to, commit. A verb that returns an error has
// changed nothing, except that kNoSpace may have evicted retained sequences. `tag`: the request
// that the verb is called for; the verb's commit records the request, even if there is nothing else
// to change.
//
// Files: sequences.cc (whole sequences), sequence_edits.cc (ranges), sequence_queries.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "engine/memory/memory_info.h"
#include "engine/memory/memory_store.h"
#include "engine/memory/owner_table.h"
#include "engine/memory/request_tag.h"

namespace kvd {

// Receives live sequences one after another. Visit is called while the memory is locked, so it must
// return within microseconds and must not call verbs of the memory.
class SequenceVisitor {
 public:
  virtual ~SequenceVisitor() = default;
  // `extents`: the list of group 0; valid during the call.
  virtual void Visit(const SequenceInfo& info, std::uint32_t shared_cells,
                     std::uint32_t checkpoint_count, std::span<const layout::Extent> extents) = 0;
};

class Transaction;

class Sequences {
 public:
  explicit Sequences(MemoryStore& store) : store_(store) {}
  Sequences(const Sequences&) = delete;
  Sequences& operator=(const Sequences&) = delete;

  // ---- whole sequences
  // Errors: kNoSpace (sequence table full).
  Result<SequenceHandle> Create(const SequenceOwner& owner, const RequestTag& tag = {});
  // Makes handles.size() sequences that refer to the cells [0, cell_count) of `source` (nullopt:
  // all cells); either all sequences are made or none. Errors: kNotFound; kInvalidArgument (no
  // handles, more than kForksMax, cell_count above the source's); kNoSpace (sequences, lists);
  // kNeedsReplay (recurrent models, if no state is kept after cell_count cells; see
  // RecurrentStates::BeginRewind).
  Status Fork(SequenceHandle source, const SequenceOwner& owner, std::span<SequenceHandle> handles,
              std::optional<std::uint32_t> cell_count = std::nullopt, const RequestTag& tag = {});
  // Drops the sequence and its references. Errors: kNotFound; kPermission (published: see
  // Unpublish).
  Status Drop(SequenceHandle handle, const RequestTag& tag = {});
  // Drops all sequences in one commit, or none. Errors: kNotFound; kPermission; kInvalidArgument (a
  // handle given twice); kNoSpace (more sequences than one commit record can drop, about 40,000).
  Status DropAll(std::span<const SequenceHandle> handles, const RequestTag& tag = {});
  // Drops every sequence of `session` except `kept` and published sequences. Errors: kNotFound,
  // kPermission (kept belongs to another session).
  Status Keep(SequenceHandle kept, SessionId session, const RequestTag& tag = {});
  // Gives the sequence to another owner or changes its flags (kSequenceRetained, kSequencePinned).
  // Sets its time of expiry; owner.life.is_ephemeral makes the sequence ephemeral, and an ephemeral
  // sequence stays so. A running step of the sequence can still commit. Errors: kNotFound,
  // kPermission, kInvalidArgument (flags other than kSequenceRetained and kSequencePinned, a flag
  // that is both set and cleared, or an ephemeral sequence that would be retained).
  Status SetOwner(SequenceHandle handle, const SequenceOwner& owner, std::uint32_t flags_set,
                  std::uint32_t flags_clear, const RequestTag& tag = {});
  // Stores a sampler (flags 0: none) as if it had drawn the sequence's last token. A running step
  // of the sequence can still commit. Errors: kNotFound, kPermission, kCorrupt (the sampler's
  // grammar begins after the sequence's last cell).
  Status SetSampler(SequenceHandle handle, const layout::SamplerRecord& sampler);

  // ---- edits
  //
  // Errors of all edits: kInvalidArgument (begin > end, begin < 0); kPermission (published);
  // kNoSpace (no room in the list arena for a rewritten list); kWindowLost (the next token of the
  // edited sequence would reach cells that a window group has dropped). Positions are 0 to
  // INT32_MAX - 1, so that the next position is also a valid number. An edit of a range without
  // cells changes nothing and is not recorded in the history.
  //
  // Removes the cells with positions in `range`. The cells that are not removed keep their
  // positions; the sequence's next position becomes its last position + 1. Returns the number of
  // removed cells. Errors: kNeedsReplay (recurrent models, see RecurrentStates::BeginRewind).
  Result<std::uint32_t> RemoveRange(SequenceHandle handle, PosRange range,
                                    const RequestTag& tag = {});
  Status Clear(SequenceHandle handle, const RequestTag& tag = {});
  // Adds references to the cells of `source` in `range` to the destination, at the same positions.
  // Returns the number of copied cells. Errors: kExists (the destination has a cell between the
  // first and the last copied position), kNoSpace, kInvalidArgument (source == destination),
  // kUnsupported: a model with recurrent state copies only the source's first cells into an empty
  // sequence; a model with a cross group copies only into an empty sequence without encoded text,
  // or into one with the same encoded text.
  Result<std::uint32_t> CopyRange(SequenceHandle source, SequenceHandle destination, PosRange range,
                                  const RequestTag& tag = {});
  // Shifts the positions in `range` by delta; only metadata changes. Errors: kInvalidArgument (the
  // shifted cells would reach or pass other cells of the sequence, or leave the valid positions).
  Status AddPositions(SequenceHandle handle, PosRange range, std::int32_t delta,
                      const RequestTag& tag = {});

  // ---- cells that are given back for lack of room
  //
  // A sequence can give back its last cells, if other sequences need the room, and keep their
  // tokens in the list arena. It is then not whole: forks, edits, saves and snapshots of it answer
  // kBusy, until its request has computed the tokens again (Steps), and the tokens survive the
  // process.
  //
  // The cells that GiveBack would give back: those behind the first `kept`, with those before in a
  // block of its own, or all if no state is kept there. nullopt: none, because that would free no
  // block and no state slot, or the sequence was edited, holds an encoded text, or is retained,
  // pinned or published.
  std::optional<GivableCells> FindGivable(SequenceHandle handle, std::uint32_t kept) const;
  // Errors: kNotFound; kUnsupported (FindGivable is nullopt); kNoSpace (list units).
  Status GiveBack(SequenceHandle handle, std::uint32_t kept);
  // The tokens behind the sequence's cells that GiveBack has kept. Errors: kNotFound.
  Result<std::vector<TokenId>> GivenTokens(SequenceHandle handle) const;
  // Forgets the tokens that GiveBack has kept: the sequence ends with its cells. Errors: kNotFound.
  Status ForgetGiven(SequenceHandle handle);

  // ---- queries
  Result<SequenceInfo> Query(SequenceHandle handle) const;
  Result<SequenceUse> QueryUse(SequenceHandle handle) const;
  Result<SequenceHistory> QueryHistory(SequenceHandle handle) const;
  // Lists are collected in portions of kListedAtOnce, by index; the mutex is released between
  // portions. A sequence that is made or dropped during the call may or may not be listed.
  static constexpr std::size_t kListedAtOnce = 64;
  std::vector<SequenceInfo> List() const;
  std::vector<SequenceInfo> ListOf(SessionId session) const;
  std::vector<SequenceInfo> RetainedOf(OwnerId owner) const;
  // The earliest time at which a sequence expires; nullopt: none expires.
  std::optional<std::uint64_t> NextExpiry() const;
  // The sequences that expire at `now_unix_ms` or earlier, at most kListedAtOnce, the earliest
  // first.
  std::vector<SequenceInfo> Expired(std::uint64_t now_unix_ms) const;
  // The resources that the owner's sequences hold. The cost does not depend on the number of
  // sequences.
  OwnerUse UseOf(OwnerId owner) const;
  // Visits the live sequences whose records have the indices [first_index, end_index), until about
  // extents_max extents have been visited. Returns the index at which to continue; end_index: all
  // sequences have been visited.
  std::uint32_t Visit(std::uint32_t first_index, std::uint32_t end_index, std::size_t extents_max,
                      SequenceVisitor& visitor) const;

 private:
  struct Copy;

  std::optional<GivableCells> FindGivable(const FoundSequence& found, std::uint32_t kept) const
      KVD_REQUIRES(store_.mutex);

  Status DropIndices(std::span<const std::uint32_t> indices, const RequestTag& tag)
      KVD_REQUIRES(store_.mutex);
  // Removes checkpoints and the kept row of logits from a sequence that is given to another owner,
  // as far as that owner's limits of checkpoints and kept rows require it.
  Status TrimCaches(Transaction& transaction, OwnerId owner, layout::SequenceRecord* record)
      KVD_REQUIRES(store_.mutex);
  Status PutFacts(Transaction& transaction, const FoundSequence& found,
                  const layout::SequenceRecord& record) KVD_REQUIRES(store_.mutex);
  Status RemoveFound(const FoundSequence& found, CellRange cells, const RequestTag& tag)
      KVD_REQUIRES(store_.mutex);
  // Checks the rule of CopyRange for cross groups. Errors: kUnsupported.
  Status CheckCross(const layout::SequenceRecord& from, const layout::SequenceRecord& to) const
      KVD_REQUIRES(store_.mutex);
  // Checks the conditions of CopyRange that depend on both sequences.
  Status CheckCopy(const FoundSequence& from, const FoundSequence& to, Copy* copy) const
      KVD_REQUIRES(store_.mutex);
  Status CheckShift(const layout::SequenceRecord& record, CellRange shifted,
                    std::int32_t delta) const KVD_REQUIRES(store_.mutex);
  // Shifts a range that consists of whole extents, without building lists of ranges. False: the
  // range cuts an extent, a shifted extent could merge with its neighbour, or there are several
  // groups. Errors: kNoSpace (lists). REQUIRES: the new positions are valid.
  Result<bool> ShiftWholeExtents(const FoundSequence& found, CellRange shifted, std::int32_t delta,
                                 const RequestTag& tag) KVD_REQUIRES(store_.mutex);
  // Calls next(indices) under the mutex, once per portion, until it returns fewer indices than
  // there is room for, and describes the returned sequences.
  template <class Next>
  std::vector<SequenceInfo> ListInPortions(Next next) const;

  MemoryStore& store_;
};

}  // namespace kvd
