// RecurrentStates: checkpoints and kept rows of logits of sequences, and removals from sequences
// whose recurrent state must be computed again. RecurrentStates is a part of Memory.
//
// Threads: the engine thread, unless stated otherwise.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "engine/memory/memory_store.h"
#include "engine/memory/request_tag.h"
#include "engine/memory/reservation.h"
#include "engine/memory/step_plan.h"

namespace kvd {

// A removal from a sequence whose recurrent state must be computed again. The engine replays the
// tokens after the nearest earlier checkpoint; then CommitRewind changes the sequence's lists and
// its state in one commit. A rewind that is destroyed without a commit changes nothing.
struct Rewind {
  SequenceHandle handle = SequenceHandle::kNone;
  PosRange range;
  std::uint32_t removed_cells = 0;
  // The lists after the removal, by block group; they contain no new cells.
  std::array<GroupPart, layout::kGroupsMax> groups;
  std::uint32_t cell_count = 0;   // cells of group 0 after the removal
  std::uint32_t replay_from = 0;  // the first cell to replay
  std::vector<TokenId> tokens;    // tokens of the cells [replay_from, cell_count)
  std::vector<Pos> positions;
  // The state before the first replayed token; kNoSlot: zeros.
  std::uint32_t state_from = layout::kNoSlot;
  // The two slots to which the replay writes its states alternately.
  std::array<std::uint32_t, 2> slots = {layout::kNoSlot, layout::kNoSlot};
  // Progress of the replay, updated by the engine: the number of replayed tokens, and the slot with
  // the state after them.
  std::size_t done = 0;
  std::uint32_t last_slot = layout::kNoSlot;
  // The content number of the sequence at BeginRewind; the commit fails if the sequence's number
  // has changed since.
  std::uint64_t content_number = 0;
  RequestTag applied;       // the request of the removal, recorded with the commit
  Reservation reservation;  // of the state slots
};

class RecurrentStates {
 public:
  explicit RecurrentStates(MemoryStore& store) : store_(store) {}
  RecurrentStates(const RecurrentStates&) = delete;
  RecurrentStates& operator=(const RecurrentStates&) = delete;

  // Keeps the state after the sequence's last cell as a checkpoint. False: the model has no
  // recurrent state, the sequence is empty, or there is no room for a checkpoint. Errors:
  // kNotFound, kNoSpace.
  Result<bool> KeepCheckpoint(SequenceHandle handle);
  // Keeps the row of logits of the sequence's last token until the sequence is edited or gets
  // another token. False: the memory has no rows of logits, no row is available, or the sequence
  // was changed since its last step.
  Result<bool> KeepLogits(SequenceHandle handle, const float* row);
  // Any thread. Copies the kept row of logits to `row`; false: no row is kept.
  Result<bool> ReadLogits(SequenceHandle handle, float* row) const;
  // Begins a removal that RemoveRange refused with kNeedsReplay. Errors: those of RemoveRange;
  // kNoSpace (the rewind needs two state slots until its commit; the message has the numbers).
  // Other verbs and steps may run before the commit.
  Result<Rewind> BeginRewind(SequenceHandle handle, PosRange range, const RequestTag& tag = {});
  // Commits the removal and ends the rewind, also on error. Errors: kConflict (the sequence was
  // changed), kNoSpace (lists); nothing has changed then. REQUIRES: rewind.done ==
  // rewind.tokens.size().
  Status CommitRewind(Rewind& rewind);

 private:
  // Fills in the lists, tokens and positions of a rewind. Errors: kWindowLost.
  Status FillRewind(const layout::SequenceRecord& record, CellRange removed, Rewind* rewind)
      KVD_REQUIRES(store_.mutex);
  Status CommitFound(const FoundSequence& found, const Rewind& rewind) KVD_REQUIRES(store_.mutex);
  Result<Rewind> TryBeginRewind(SequenceHandle handle, PosRange range, const RequestTag& tag);

  MemoryStore& store_;
};

}  // namespace kvd
