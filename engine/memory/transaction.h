// Transaction: one change of a memory's committed state, all of it or nothing.
//
// A verb makes one under the store's mutex, writes new lists where nothing committed refers to them,
// puts new records, and commits. Commit compares the old records with the new ones and brings
// everything that is derived from them along: counts of blocks and slots, room of lists, free records,
// owners, names, the prefix index and the order of eviction. A transaction that is not committed leaves
// nothing behind.
//
// One at a time: MakeRoom and whatever else commits by itself comes before. Nothing is allocated, but
// for scratch that has to grow.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "engine/memory/extents.h"
#include "engine/memory/memory_store.h"
#include "engine/memory/request_tag.h"
#include "engine/memory/transaction_scratch.h"
#include "shm/error.h"

namespace kvd {

class Transaction {
 public:
  // The tag is remembered with the commit if Answer is called.
  explicit Transaction(MemoryStore& store, const RequestTag& tag = {}) KVD_REQUIRES(store.mutex);
  // Undoes what was not committed.
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  // Whether a client asked for this change.
  bool is_somebodys() const { return tag_.is_somebodys(); }
  const RequestTag& tag() const { return tag_; }

  // ---- new lists. Errors: kNoSpace.
  Result<layout::ListRoot> AllocateList(std::uint32_t entry_count);  // with no sum yet
  Result<layout::ListRoot> WriteList(std::span<const Piece> pieces, std::uint32_t first_cell);
  Result<layout::ListRoot> CopyList(const layout::ListRoot& source, std::uint32_t entry_count);
  Result<layout::ListRoot> WriteCheckpoints(std::span<const layout::Checkpoint> checkpoints);
  // A list that was written before.
  void Adopt(const layout::ListRoot& root);
  // One of these that is in no record that was put.
  void GiveBack(const layout::ListRoot& root);

  // ---- free records. Errors of TakeSequences: kNoSpace with the numbers, where fewer are free.
  Status CheckSequences(std::size_t count) const;
  std::uint32_t TakeSequence();                 // REQUIRES: one is free
  std::optional<std::uint32_t> TakeSnapshot();  // nullopt: none is free
  std::optional<std::uint32_t> TakeSession();

  // ---- changes. The edit number of a changed sequence rises by itself.
  void Put(std::uint32_t index, const layout::SequenceRecord& record, Change change);
  // A record that was taken. `alike`: a sequence whose first tokens it begins with, kNoSlot: none.
  // is_copy: of the one put just before, but for generation.
  void PutNew(std::uint32_t index, const layout::SequenceRecord& record, std::uint32_t alike,
              bool is_copy = false);
  // One of the last edits of a sequence, at its place in the history; see NoteEdit.
  void PutEdit(std::uint32_t index, std::uint32_t place, const layout::EditRecord& edit);
  void Free(std::uint32_t index);
  // A record whose cells and slots were never counted, since they do not hold together.
  void FreeUncounted(std::uint32_t index);
  void PutSnapshot(std::uint32_t index, const layout::SnapshotRecord& record);  // all zero: free
  void PutSession(std::uint32_t index, const layout::SessionRecord& record);    // all zero: free
  void PutSessionNote(std::uint32_t index,
                      const layout::SessionRecord& record);  // not its window
  // The record's tokens are not those that its last request computed any more, if a client asked for
  // this edit.
  void EndRequest(layout::SequenceRecord* record) const;
  // What the request is answered, if it is sent again.
  void Answer(SequenceHandle sequence, std::uint32_t cells, std::size_t created = 0,
              layout::AppliedState state = layout::kAppliedEnded);

  // Makes all of it true. Errors: kNoSpace (more than a commit record holds; more than an owner may
  // hold); nothing has changed then.
  Status Commit();

 private:
  using Record = TransactionScratch::Record;

  layout::SequenceRecord* PutRecord(std::uint32_t index, const layout::SequenceRecord& record)
      KVD_REQUIRES(store_.mutex);
  void SetSame(Record* record) const KVD_REQUIRES(store_.mutex);
  void Compare(Record* record, const layout::SequenceRecord& old) KVD_REQUIRES(store_.mutex);
  // The records that were and those that are to be.
  enum class Side : std::uint8_t { kOld, kNew };
  static bool IsCounted(const Record& record, Side side);
  const layout::SequenceRecord& RecordOf(const Record& record, Side side) const
      KVD_REQUIRES(store_.mutex);
  template <class Count>
  void VisitDifferences(const Record& record, Side side, const Count& count) const
      KVD_REQUIRES(store_.mutex);
  void AddReferences(const Record& record, Side side, std::uint32_t times)
      KVD_REQUIRES(store_.mutex);
  void DropReferences(const Record& record, Side side) KVD_REQUIRES(store_.mutex);
  // The tables count one side in place of the other one.
  void Recount(Side added, Side dropped) KVD_REQUIRES(store_.mutex);
  void CollectGrowers() KVD_REQUIRES(store_.mutex);
  // Errors: kNoSpace (an owner's limits).
  Status CheckShares() const KVD_REQUIRES(store_.mutex);
  void Derive(const Record& record) KVD_REQUIRES(store_.mutex);
  void DeriveSnapshots() KVD_REQUIRES(store_.mutex);
  void DeriveSessions() KVD_REQUIRES(store_.mutex);
  // Lists of the old record that are not the new one's.
  void CollectReplaced(const Record& record) KVD_REQUIRES(store_.mutex);
  const layout::SequenceRecord& OldOf(const Record& record) const KVD_REQUIRES(store_.mutex);

  MemoryStore& store_;
  TransactionScratch& scratch_;
  const RequestTag tag_;
  bool is_committed_ = false;
};

// A verb that finds nothing to change: its request is remembered all the same.
Status CommitNothing(MemoryStore& store, const RequestTag& tag, SequenceHandle sequence)
    KVD_REQUIRES(store.mutex);

}  // namespace kvd
