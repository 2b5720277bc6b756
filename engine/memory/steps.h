// Steps: the appending of computed tokens. Part of Memory. Engine thread, one step at a time.
//
// Reserve finds cells and state slots and tells what each sequence sees; the caller computes without the
// lock; Commit (step_commit.cc) appends. Between them the reserved cells and slots are used, but nothing
// committed refers to them: a process killed meanwhile leaves nothing behind.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/memory/append_promise.h"
#include "engine/memory/eviction.h"
#include "engine/memory/memory_store.h"
#include "engine/memory/reservation.h"
#include "engine/memory/step_plan.h"
#include "engine/memory/transaction.h"
#include "shm/error.h"

namespace kvd {

class Steps {
 public:
  explicit Steps(MemoryStore& store) : store_(store) {}
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  // Finds cells and a state slot for every request, or fails changing nothing. Reserved ones belong
  // to no sequence until committed. Errors, with the numbers: kNoSpace (needed, free, reclaimable);
  // kInvalidArgument (wrong position, a sequence twice, no encoded text where the model has a cross
  // group); kNotFound; kPermission (published). kNoSpace may have evicted retained sequences.
  // plan.failed is the index of the request at fault then, if one is.
  Status Reserve(std::span<const AppendRequest> requests, StepPlan& plan);
  // Keeps what that many tokens of one request will take, for all of its steps. Any thread. Errors:
  // kNotFound, kPermission, kNoSpace (the owner's limits, or the pool).
  Result<AppendPromise> Promise(SequenceHandle handle, std::size_t tokens);
  // Appends the new cells of plan.sequences[index] to their sequence. kConflict if that was edited
  // or dropped meanwhile; kNoSpace if forks or other parts took the list room that Reserve saw. On
  // error its part is as if abandoned. REQUIRES: K and V of the new cells and the state are in the
  // pool. Window groups drop their blocks that the next token does not reach any more.
  Status Commit(StepPlan& plan, std::size_t index);
  // Gives up one sequence's part of the step.
  void Abandon(StepPlan& plan, std::size_t index);
  // Ends the step: every part must be committed or abandoned. Blocks freed during the step become
  // free now; plan.count is 0.
  void EndStep(StepPlan& plan);

 private:
  // Where the new cells of one group of one sequence go.
  struct NewCells {
    std::uint32_t tail_count = 0;   // into the free tail of the last block
    std::uint32_t fresh_count = 0;  // into fresh blocks
    std::uint32_t fresh_blocks = 0;
  };
  // What this process knows of a part of the step, until it is committed or abandoned.
  struct OpenPart {
    std::uint32_t index = 0;  // of its sequence
    std::uint64_t content_number = 0;
    PendingUse promised;  // of the reservation, what had been promised
    Reservation reservation;
  };

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
  // What appending so many cells would make the sequence's owner hold beside what it does.
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
  Status CommitFound(const FoundSequence& found, const StepSequence& part, OpenPart* open)
      KVD_REQUIRES(store_.mutex);
  // The list of one group with the part's new cells, without its first `dropped` extents. Errors:
  // kNoSpace.
  Result<layout::ListRoot> AppendToList(Transaction& transaction, const layout::SequenceRecord& old,
                                        std::uint32_t group, const GroupPart& part,
                                        std::size_t dropped) KVD_REQUIRES(store_.mutex);
  // The record's lists with the part's new cells. Errors: kNoSpace.
  Status AppendGroups(Transaction& transaction, const layout::SequenceRecord& old,
                      const StepSequence& part, layout::SequenceRecord* record)
      KVD_REQUIRES(store_.mutex);
  std::size_t CountOutOfReach(std::uint32_t group, const GroupPart& part,
                              std::int64_t next_pos) const KVD_REQUIRES(store_.mutex);

  MemoryStore& store_;
  // By index of the step's plan, at least as many; kept, so that their vectors keep their room.
  std::vector<OpenPart> open_parts_ KVD_GUARDED_BY(store_.mutex);
  std::vector<FoundSequence> found_ KVD_GUARDED_BY(store_.mutex);
};

}  // namespace kvd
