// Transaction: one atomic change of a memory's committed state.
//
// A verb makes a transaction under the store's mutex, writes new lists to places that no committed
// record refers to, puts new records, and commits. Commit compares the old records with the new
// ones and updates everything derived from them: counts of blocks and slots, list units, free
// records, owners, names, the prefix index and the eviction order. A transaction that is destroyed
// without a commit frees its new lists and records and changes nothing.
//
// Only one transaction is open at a time: MakeRoom and other functions that make commits must be
// called before a transaction is opened. The scratch and the derived tables sometimes allocate
// memory. A std::bad_alloc before Commit is an ordinary error. A std::bad_alloc inside Commit ends
// the process, because the counts would be half updated; the next process derives the counts from
// the committed records.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"
#include "engine/memory/extents.h"
#include "engine/memory/memory_store.h"
#include "engine/memory/request_tag.h"
#include "engine/memory/transaction_scratch.h"

namespace kvd {

// Writes lists into the list arena, to places that no committed record refers to. A transaction
// calls the functions of this header and frees its lists if it is not committed; a defragmentation
// writes its lists before it begins the transactions that commit them.

// Errors of AllocateList and WriteList: kNoSpace. The list that AllocateList returns has no
// checksum yet.
Result<layout::ListRoot> AllocateList(MemoryStore& store, std::uint32_t entry_count)
    KVD_REQUIRES(store.mutex);
Result<layout::ListRoot> WriteList(MemoryStore& store, std::span<const BlockRange> ranges,
                                   std::uint32_t first_cell) KVD_REQUIRES(store.mutex);
// Frees the list's units; FreeList has no effect on an empty list.
void FreeList(MemoryStore& store, const layout::ListRoot& root) KVD_REQUIRES(store.mutex);

// The number of extents that take the room of `token_count` tokens in a list.
constexpr std::uint32_t ExtentsForTokens(std::size_t token_count) {
  constexpr std::size_t kTokens = sizeof(layout::Extent) / sizeof(TokenId);
  return static_cast<std::uint32_t>((token_count + kTokens - 1) / kTokens);
}

class Transaction {
 public:
  // The commit records the tag if Answer is called.
  explicit Transaction(MemoryStore& store, const RequestTag& tag = {}) KVD_REQUIRES(store.mutex);
  // Undoes all changes of the transaction if it was not committed.
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  // Whether the change is made for a client's request.
  bool is_somebodys() const { return tag_.is_somebodys(); }
  const RequestTag& tag() const { return tag_; }

  // ---- new lists. Errors: kNoSpace.
  Result<layout::ListRoot> AllocateList(std::uint32_t entry_count);  // without a checksum
  Result<layout::ListRoot> WriteList(std::span<const BlockRange> ranges, std::uint32_t first_cell);
  Result<layout::ListRoot> CopyList(const layout::ListRoot& source, std::uint32_t entry_count);
  Result<layout::ListRoot> WriteCheckpoints(std::span<const layout::Checkpoint> checkpoints);
  Result<layout::ListRoot> WriteTokens(std::span<const TokenId> tokens);
  // Takes ownership of a list that was written before the transaction.
  void Adopt(const layout::ListRoot& root);
  // Frees a list that the transaction has written or adopted. REQUIRES: no record that was put
  // refers to it.
  void GiveBack(const layout::ListRoot& root);

  // ---- free records. Errors of CheckSequences: kNoSpace with the numbers, if fewer are free.
  Status CheckSequences(std::size_t count) const;
  std::uint32_t TakeSequence();                 // REQUIRES: one is free
  std::optional<std::uint32_t> TakeSnapshot();  // nullopt: none is free
  std::optional<std::uint32_t> TakeSession();

  // ---- changes. Each Put of a sequence, except kMoved, increases its edit number.
  void Put(std::uint32_t index, const layout::SequenceRecord& record, Change change);
  // Puts a record that TakeSequence has returned. `alike`: another sequence that begins with the
  // same tokens; kNoSlot: none. is_copy: the record equals the record put just before, except for
  // the generation.
  void PutNew(std::uint32_t index, const layout::SequenceRecord& record, std::uint32_t alike,
              bool is_copy = false);
  // Puts an edit record at `place` in the ring of the sequence's last edits; see NoteEdit.
  void PutEdit(std::uint32_t index, std::uint32_t place, const layout::EditRecord& edit);
  void Free(std::uint32_t index);
  // Frees a record whose cells and slots were never counted, because they are inconsistent.
  void FreeUncounted(std::uint32_t index);
  void PutSnapshot(std::uint32_t index, const layout::SnapshotRecord& record);  // all zero: free
  void PutSession(std::uint32_t index, const layout::SessionRecord& record);    // all zero: free
  // Puts the session's record except for its window of applied requests.
  void PutSessionNote(std::uint32_t index, const layout::SessionRecord& record);
  // Called after an edit of the record's cells. If a client requested the edit, or if the edit
  // removed the first token that the record's last request computed, the record's tokens no longer
  // count as computed by that request.
  void EndRequest(layout::SequenceRecord* record) const;
  // Sets the answer that a retry of the request gets.
  void Answer(SequenceHandle sequence, std::uint32_t cells, std::size_t created = 0,
              layout::AppliedState state = layout::kAppliedEnded);

  // Commits all changes. Errors: kNoSpace (more than a commit record holds, or more than an owner
  // may hold); nothing has changed then.
  Status Commit() noexcept;

 private:
  using Record = TransactionScratch::Record;

  layout::SequenceRecord* PutRecord(std::uint32_t index, const layout::SequenceRecord& record)
      KVD_REQUIRES(store_.mutex);
  void SetSame(Record* record) const KVD_REQUIRES(store_.mutex);
  void Compare(Record* record, const layout::SequenceRecord& old) KVD_REQUIRES(store_.mutex);
  // The two sides of a change: the records before the change and the records after the change.
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
  // Makes the tables count the records of side `added` instead of those of side `dropped`.
  void Recount(Side added, Side dropped) KVD_REQUIRES(store_.mutex);
  void CollectGrowers() KVD_REQUIRES(store_.mutex);
  // Errors: kNoSpace (an owner's limits).
  Status CheckShares() const KVD_REQUIRES(store_.mutex);
  void Derive(const Record& record) KVD_REQUIRES(store_.mutex);
  void DeriveSnapshots() KVD_REQUIRES(store_.mutex);
  void DeriveSessions() KVD_REQUIRES(store_.mutex);
  // Collects the lists of the old record that the new record does not have.
  void CollectReplaced(const Record& record) KVD_REQUIRES(store_.mutex);
  const layout::SequenceRecord& OldOf(const Record& record) const KVD_REQUIRES(store_.mutex);

  MemoryStore& store_;
  TransactionScratch& scratch_;
  const RequestTag tag_;
  bool is_committed_ = false;
};

// Commits only the request of a verb that changes no record.
Status CommitNothing(MemoryStore& store, const RequestTag& tag, SequenceHandle sequence)
    KVD_REQUIRES(store.mutex);

}  // namespace kvd
