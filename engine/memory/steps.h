// Steps: appends computed tokens to sequences. Steps is a part of Memory. Thread: the engine
// thread, one step at a time, unless stated otherwise.
//
// Reserve takes cells and state slots and describes which cells each sequence's new tokens attend
// to; the caller computes the tokens without the lock; Commit (step_commit.cc) appends the cells to
// the sequences. Until the commit, no committed record refers to the reserved cells and slots, so a
// killed process leaves nothing to clean up.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/memory/eviction.h"
#include "engine/memory/memory_store.h"
#include "engine/memory/reservation.h"
#include "engine/memory/room_claim.h"
#include "engine/memory/step_plan.h"
#include "engine/memory/transaction.h"

namespace kvd {

// AppendPromise: blocks and a state slot that are kept free for the tokens of one request, so that
// a request that takes several steps finds a free block or slot in every step.
//
// The promised blocks and slot count as held by the sequence's owner. The class is move-only; its
// destructor frees the promised blocks and slot that were not used. The memory must outlive the
// promise. Threads: any.
class AppendPromise {
 public:
  AppendPromise() = default;  // promises nothing
  AppendPromise(MemoryStore& store, std::uint32_t index, std::uint64_t number)
      : store_(&store), index_(index), number_(number) {}
  AppendPromise(AppendPromise&& other) noexcept
      : store_(std::exchange(other.store_, nullptr)),
        index_(other.index_),
        number_(other.number_) {}
  AppendPromise& operator=(AppendPromise&& other) noexcept {
    std::swap(store_, other.store_);
    std::swap(index_, other.index_);
    std::swap(number_, other.number_);
    return *this;
  }
  ~AppendPromise() {
    if (store_ == nullptr) return;
    const MutexLock lock(store_->mutex);
    EndPromise(*store_, index_, number_);
  }

 private:
  MemoryStore* store_ = nullptr;
  std::uint32_t index_ = 0;
  std::uint64_t number_ = 0;
};

class Steps {
 public:
  explicit Steps(MemoryStore& store) : store_(store) {}
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  // Reserves cells and a state slot for every request, or fails without a change. Reserved cells
  // and slots belong to no sequence until the commit. Errors, with the numbers: kNoSpace (needed,
  // free, reclaimable); kInvalidArgument (wrong position, a sequence given twice, no encoded text
  // although the model has a cross group); kNotFound; kPermission (published). kNoSpace may have
  // evicted retained sequences. On error plan.failed is the index of the failed request, or kNone
  // if no single request failed.
  Status Reserve(std::span<const AppendRequest> requests, StepPlan& plan);
  // Decides which of the claims have room, each behind those before it; a claim that needs room
  // waits if an earlier claim of the same owner waits. Reserves nothing and evicts nothing:
  // retained sequences count as free. Room in the list arena and on the file system is not looked
  // at, so Reserve may still fail with kNoSpace. Any thread.
  void FindRoom(std::span<RoomClaim> claims);
  // Keeps the resources free that `tokens` tokens of one request will take in all its steps. Any
  // thread. Errors: kNotFound, kPermission, kNoSpace (the owner's limits, or the pool).
  Result<AppendPromise> Promise(SequenceHandle handle, std::size_t tokens);
  // Appends the new cells of plan.sequences[index] to their sequence. Window groups drop leading
  // blocks that the next token does not reach. Errors: kConflict (the sequence was edited or
  // dropped since Reserve); kNoSpace (forks or other parts took the list units that Reserve counted
  // on). After an error the part is abandoned. REQUIRES: K and V of the new cells and the state are
  // in the pool.
  Status Commit(StepPlan& plan, std::size_t index);
  // Gives up one sequence's part of the step.
  void Abandon(StepPlan& plan, std::size_t index);
  // Ends the step: blocks that lost their last reference during the step become free, and
  // plan.count becomes 0. REQUIRES: every part is committed or abandoned.
  void EndStep(StepPlan& plan);

 private:
  // Where the new cells of one sequence are stored in one group.
  struct NewCells {
    std::uint32_t tail_count = 0;   // cells stored in the free tail of the last block
    std::uint32_t fresh_count = 0;  // cells stored in fresh blocks
    std::uint32_t fresh_blocks = 0;
  };
  // State of a part of the step until it is committed or abandoned.
  struct OpenPart {
    std::uint32_t index = 0;  // index of the part's sequence
    std::uint64_t content_number = 0;
    PendingUse promised;  // part of the reservation that the sequence's promise covered
    Reservation reservation;
  };

  // The room that a claim needs beyond its promise.
  struct ClaimNeed {
    PendingUse use;  // of the sequence's owner, if the sequence is held
    std::array<std::uint64_t, layout::kGroupsMax> blocks = {};
    std::uint32_t states = 0;  // that the step writes
    std::vector<std::uint64_t> tails = {};
  };
  struct TakenRoom;

  ClaimNeed NeedOf(const layout::SequenceRecord& record, std::uint32_t index, std::size_t tokens,
                   TakenRoom& taken) const KVD_REQUIRES(store_.mutex);
  Status CheckPool(const ClaimNeed& need, const TakenRoom& taken) const KVD_REQUIRES(store_.mutex);
  RoomVerdict VerdictOf(const ClaimNeed& need) const KVD_REQUIRES(store_.mutex);
  void Judge(RoomClaim& claim, TakenRoom& taken) KVD_REQUIRES(store_.mutex);
  Status CheckAppend(const AppendRequest& request, FoundSequence* found) const
      KVD_REQUIRES(store_.mutex);
  Status CheckListRoom(const layout::ListRoot& root, std::uint32_t fresh_blocks) const
      KVD_REQUIRES(store_.mutex);
  static std::uint32_t CountNewCells(const AppendRequest& request);
  Need NeedOf(std::span<const AppendRequest> requests) const KVD_REQUIRES(store_.mutex);
  void MakeRoomFor(std::span<const AppendRequest> requests) KVD_REQUIRES(store_.mutex);
  NewCells PlanAppend(const layout::SequenceRecord& record, std::uint32_t group,
                      std::uint32_t new_cells) const KVD_REQUIRES(store_.mutex);
  Status TryReserve(std::span<const AppendRequest> requests, StepPlan* plan);
  Status CheckAppends(std::span<const AppendRequest> requests, StepPlan* plan)
      KVD_REQUIRES(store_.mutex);
  Status ReserveParts(std::span<const AppendRequest> requests, StepPlan* plan)
      KVD_REQUIRES(store_.growth_mutex, store_.mutex);
  // What appending new_cells cells adds to the resources that the sequence's owner holds.
  PendingUse UseOf(const layout::SequenceRecord& record, std::uint32_t new_cells) const
      KVD_REQUIRES(store_.mutex);
  Status ReservePart(const AppendRequest& request, const FoundSequence& found, StepSequence* part,
                     Reservation* reservation) KVD_REQUIRES(store_.growth_mutex, store_.mutex);
  Status ReserveGroup(const layout::SequenceRecord& record, std::uint32_t group,
                      std::uint32_t new_cells, GroupPart* part, Reservation* reservation)
      KVD_REQUIRES(store_.growth_mutex, store_.mutex);
  Status ReserveStates(StepPlan* plan) KVD_REQUIRES(store_.mutex);
  Status GrowPool(StepPlan* plan) KVD_REQUIRES(store_.growth_mutex);
  void UndoReserve(StepPlan* plan) KVD_REQUIRES(store_.mutex);
  void WriteCells(const StepSequence& part, std::uint32_t group);
  Status TakeGiven(const StepSequence& part, layout::SequenceRecord* record) const
      KVD_REQUIRES(store_.mutex);
  Status CommitFound(const FoundSequence& found, const StepSequence& part, OpenPart* open)
      KVD_REQUIRES(store_.mutex);
  // The list of one group with the part's new cells and without its first `dropped` extents.
  // Errors: kNoSpace.
  Result<layout::ListRoot> AppendToList(Transaction& transaction, const layout::SequenceRecord& old,
                                        std::uint32_t group, const GroupPart& part,
                                        std::size_t dropped) KVD_REQUIRES(store_.mutex);
  // Writes lists with the part's new cells and sets the record's list roots. Errors: kNoSpace.
  Status AppendGroups(Transaction& transaction, const layout::SequenceRecord& old,
                      const StepSequence& part, layout::SequenceRecord* record)
      KVD_REQUIRES(store_.mutex);
  std::size_t CountOutOfReach(std::uint32_t group, const GroupPart& part,
                              std::int64_t next_pos) const KVD_REQUIRES(store_.mutex);

  MemoryStore& store_;
  // By index in the step's plan; may have more entries than the plan. The entries of open_parts_
  // are reused, so that their vectors keep their capacity.
  std::vector<OpenPart> open_parts_ KVD_GUARDED_BY(store_.mutex);
  std::vector<FoundSequence> found_ KVD_GUARDED_BY(store_.mutex);
};

}  // namespace kvd
