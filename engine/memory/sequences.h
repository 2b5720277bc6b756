// Sequences: making, forking, editing, dropping and listing them. Part of Memory.
//
// Threads: any. Every verb is three steps: find (all errors of the arguments are found here), write new
// lists where nothing committed refers to them, commit. A verb that returns an error has changed nothing;
// one that returns kNoSpace may have evicted retained sequences. `tag`: the request that a verb is called
// for is remembered in the verb's own commit, also where the verb finds nothing to change.
//
// Files: sequences.cc (whole sequences), sequence_edits.cc (ranges), sequence_queries.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/memory/memory_info.h"
#include "engine/memory/memory_store.h"
#include "engine/memory/owner_table.h"
#include "engine/memory/request_tag.h"
#include "shm/error.h"
#include "shm/ids.h"

namespace kvd {

// Called with one live sequence after another while the memory is locked: microseconds, no verbs.
class SequenceVisitor {
 public:
  virtual ~SequenceVisitor() = default;
  // `extents`: of group 0; valid during the call.
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
  // kNeedsReplay of this and of the edits: recurrent models, see RecurrentStates::BeginRewind.
  // Makes handles.size() sequences that refer to the cells [0, cell_count) of `source` (all if
  // nullopt), all or none. Errors: kNotFound, kInvalidArgument (no handles, more than kForksMax,
  // cell_count > source's), kNoSpace (sequences, lists).
  Status Fork(SequenceHandle source, const SequenceOwner& owner, std::span<SequenceHandle> handles,
              std::optional<std::uint32_t> cell_count = std::nullopt, const RequestTag& tag = {});
  // Frees the handle and its references. Errors: kNotFound; kPermission (published: see Unpublish).
  Status Drop(SequenceHandle handle, const RequestTag& tag = {});
  // Frees all of the handles in one commit, or none. Errors: kNotFound; kPermission;
  // kInvalidArgument (a handle twice); kNoSpace (more than one commit record holds: some 40,000).
  Status DropAll(std::span<const SequenceHandle> handles, const RequestTag& tag = {});
  // Drops every sequence of `session` but `kept`; published ones stay. Errors: kNotFound,
  // kPermission (kept is another's).
  Status Keep(SequenceHandle kept, SessionId session, const RequestTag& tag = {});
  // Hands the sequence to another owner or changes its flags (kSequenceRetained, kSequencePinned).
  // No conflict for a step. Errors: kNotFound, kPermission, kInvalidArgument (other flags, or one
  // both ways).
  Status SetOwner(SequenceHandle handle, const SequenceOwner& owner, std::uint32_t flags_set,
                  std::uint32_t flags_clear, const RequestTag& tag = {});
  // Keeps a sampler (or none: flags 0) as if it had drawn the sequence's last token. No conflict for
  // a step. Errors: kNotFound, kPermission.
  Status SetSampler(SequenceHandle handle, const layout::SamplerRecord& sampler);

  // ---- edits. All errors of the ranges: kInvalidArgument (begin > end, begin < 0). kPermission:
  // published sequences. kNoSpace: a list that is rewritten finds no room in the list arena.
  // Positions are 0 to INT32_MAX - 1, so that the next one is a position too. A range without cells
  // changes nothing and is no edit. kWindowLost: a token behind the edited sequence would reach
  // cells that a window group has dropped.
  // Removes the cells with positions in range; holes stay, the next position becomes last + 1.
  // Returns cells removed.
  Result<std::uint32_t> RemoveRange(SequenceHandle handle, PosRange range,
                                    const RequestTag& tag = {});
  Status Clear(SequenceHandle handle, const RequestTag& tag = {});
  // Adds references to source's cells in range, at their positions. Errors: kExists (destination
  // holds a position inside [first, last] of what is copied), kNoSpace. source == destination is
  // kInvalidArgument; kUnsupported: a model with state copies the source's first cells into an empty
  // sequence only, a model with a cross group into one without an encoded text or with the same one.
  // Returns cells copied.
  Result<std::uint32_t> CopyRange(SequenceHandle source, SequenceHandle destination, PosRange range,
                                  const RequestTag& tag = {});
  // Shifts positions in range by delta: metadata only. Errors: kInvalidArgument (overlap, reorder,
  // below 0, overflow).
  Status AddPositions(SequenceHandle handle, PosRange range, std::int32_t delta,
                      const RequestTag& tag = {});

  // ---- queries
  Result<SequenceInfo> Query(SequenceHandle handle) const;
  Result<SequenceUse> QueryUse(SequenceHandle handle) const;
  Result<SequenceHistory> QueryHistory(SequenceHandle handle) const;
  // Lists are put together from portions of kListedAtOnce: the mutex is free between two of them, so
  // a sequence that is made or dropped meanwhile may be in the list or not. By index.
  static constexpr std::size_t kListedAtOnce = 64;
  std::vector<SequenceInfo> List() const;
  std::vector<SequenceInfo> ListOf(SessionId session) const;
  std::vector<SequenceInfo> RetainedOf(OwnerId owner) const;
  // What the owner's sequences hold. Does not depend on how many sequences there are.
  OwnerUse UseOf(OwnerId owner) const;
  // Visits the live sequences whose records have the indices [first_index, end_index), until some
  // extents_max extents have been looked at; the index to go on from. end_index: all are done.
  std::uint32_t Visit(std::uint32_t first_index, std::uint32_t end_index, std::size_t extents_max,
                      SequenceVisitor& visitor) const;

 private:
  struct Copy;

  Status DropIndices(std::span<const std::uint32_t> indices, const RequestTag& tag)
      KVD_REQUIRES(store_.mutex);
  // A sequence that counts for another owner from now on keeps what fits that one's shares of caches.
  Status TrimCaches(Transaction& transaction, OwnerId owner, layout::SequenceRecord* record)
      KVD_REQUIRES(store_.mutex);
  Status PutFacts(Transaction& transaction, const FoundSequence& found,
                  const layout::SequenceRecord& record) KVD_REQUIRES(store_.mutex);
  Status RemoveFound(const FoundSequence& found, CellRange cells, const RequestTag& tag)
      KVD_REQUIRES(store_.mutex);
  // What keeps the cross groups of both sequences apart, if they are: see CopyRange.
  Status CheckCross(const layout::SequenceRecord& from, const layout::SequenceRecord& to) const
      KVD_REQUIRES(store_.mutex);
  // Errors: those of CopyRange that depend on both sequences.
  Status CheckCopy(const FoundSequence& from, const FoundSequence& to, Copy* copy) const
      KVD_REQUIRES(store_.mutex);
  Status CheckShift(const layout::SequenceRecord& record, CellRange shifted,
                    std::int32_t delta) const KVD_REQUIRES(store_.mutex);
  // Shifts the cells of a range without looking at each list of pieces; false: the range cuts an
  // extent, or a shifted one could join its neighbour, or there are several groups. Errors:
  // kNoSpace (lists). REQUIRES: the cells may have the positions that they get.
  Result<bool> ShiftWholeExtents(const FoundSequence& found, CellRange shifted, std::int32_t delta,
                                 const RequestTag& tag) KVD_REQUIRES(store_.mutex);
  // Calls next(indices) under the mutex, once for each portion, until it returns fewer indices than
  // there is room for; describes those.
  template <class Next>
  std::vector<SequenceInfo> ListInPortions(Next next) const;

  MemoryStore& store_;
};

}  // namespace kvd
