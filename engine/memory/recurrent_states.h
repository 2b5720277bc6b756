// RecurrentStates: checkpoints and kept rows of logits of sequences, and removals from a sequence whose
// recurrent state has to be computed again. Part of Memory.
//
// Threads: the engine thread, but for what says otherwise.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/memory/memory_store.h"
#include "engine/memory/request_tag.h"
#include "engine/memory/reservation.h"
#include "engine/memory/step_plan.h"
#include "shm/error.h"
#include "shm/ids.h"

namespace kvd {

// A removal from a sequence whose recurrent state has to be computed again: the tokens behind the
// nearest checkpoint are replayed, then CommitRewind changes list and state together. A rewind that
// goes without a commit has changed nothing.
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
  // Kept by the engine while it replays: how many tokens are done, and the slot that has the state
  // after them.
  std::size_t done = 0;
  std::uint32_t last_slot = layout::kNoSlot;
  std::uint64_t content_number = 0;  // of the sequence, for the commit
  RequestTag applied;                // whose removal it is, remembered with the commit
  Reservation reservation;           // of its slots
};

class RecurrentStates {
 public:
  explicit RecurrentStates(MemoryStore& store) : store_(store) {}
  RecurrentStates(const RecurrentStates&) = delete;
  RecurrentStates& operator=(const RecurrentStates&) = delete;

  // Keeps the state behind the sequence's last cell, so that it can go back there. False: the model
  // has none, the sequence is empty, or there is no room for one more. Errors: kNotFound, kNoSpace.
  Result<bool> KeepCheckpoint(SequenceHandle handle);
  // Keeps the row of logits of its last token; the next edit or token ends that. False: the
  // model keeps none, or the sequence was changed since its last step.
  Result<bool> KeepLogits(SequenceHandle handle, const float* row);
  // Any thread. Copies the kept row; false: there is none.
  Result<bool> ReadLogits(SequenceHandle handle, float* row) const;
  // What RemoveRange refused with kNeedsReplay. Errors: its own; kNoSpace (two state slots are
  // needed meanwhile, with the numbers). Other verbs and steps may come in between.
  Result<Rewind> BeginRewind(SequenceHandle handle, PosRange range, const RequestTag& tag = {});
  // REQUIRES: rewind.done == rewind.tokens.size(). Errors: kConflict (the sequence was changed),
  // kNoSpace (lists); nothing has changed then. Ends the rewind either way.
  Status CommitRewind(Rewind& rewind);

 private:
  // The lists, tokens and positions of a rewind. Errors: kWindowLost.
  Status FillRewind(const layout::SequenceRecord& record, CellRange removed, Rewind* rewind)
      KVD_REQUIRES(store_.mutex);
  Status CommitFound(const FoundSequence& found, const Rewind& rewind) KVD_REQUIRES(store_.mutex);
  Result<Rewind> TryBeginRewind(SequenceHandle handle, PosRange range, const RequestTag& tag);

  MemoryStore& store_;
};

}  // namespace kvd
