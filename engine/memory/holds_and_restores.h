// Holds and restores: reading a sequence as it was while others change it, and filling an empty
// sequence from elsewhere.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "engine/memory/memory_info.h"
#include "engine/memory/memory_store.h"
#include "engine/memory/owner.h"
#include "engine/memory/request_tag.h"
#include "engine/memory/reservation.h"
#include "engine/memory/step_plan.h"

namespace kvd {

// The data of holds and restores. A hold lets code outside of the memory read a sequence's content,
// for instance to save it to a file; a restore writes saved content into an empty sequence.
//
// A hold keeps the content of a sequence readable as it was, without the lock, from any thread,
// while the sequence itself is extended, edited or dropped. Holds exist in this process only, so a
// killed process leaves no hold.
//
// A restore is like a step: it reserves cells and slots that no committed record refers to, the
// caller fills these cells and slots without the lock, and one commit gives them to an empty
// sequence. A restore that is destroyed without a commit releases its cells and slots.

// A SequenceHold is plain data and valid until Holds::Release. Until the release, the blocks, cell
// records and slots that the hold refers to do not change.
struct SequenceHold {
  // Set by the caller: the hold ends within about a millisecond. A request that needs blocks or
  // slots that only brief holds keep waits until these holds end instead of failing.
  bool is_brief = false;
  // Set by the caller: the owner that blocks and state slots count for while only this hold keeps
  // them; kNoOwner: they count for no owner (brief holds).
  OwnerId owner = kNoOwner;
  SequenceInfo info;                                // the sequence as it was at Holds::Begin
  std::array<GroupPart, layout::kGroupsMax> parts;  // by block group; no new cells
  std::uint32_t group_count = 0;
  std::uint32_t cross_group = layout::kNoSlot;  // the group of an encoded text; kNoSlot: none
  std::uint32_t state_slot = layout::kNoSlot;   // the state after the last cell; kNoSlot: none
  // Row of logits of the last token; kNoSlot: none is kept.
  std::uint32_t logits_slot = layout::kNoSlot;
  std::vector<layout::Checkpoint> checkpoints;  // ordered by cell_count
  bool is_held = false;
};

struct RestoreRequest {
  SequenceHandle handle = SequenceHandle::kNone;  // an empty sequence without an encoded text
  std::span<const TokenId> tokens{};              // range-checked by the caller
  std::span<const Pos> positions{};               // of the tokens: non-decreasing, at least 0
  std::span<const TokenId> cross_tokens{};        // tokens of the encoded text; may be empty
  std::uint32_t key_form = 0;                     // layout::CellRecord::key_form of the cells
  // The first pristine_cells cells are at the positions 0, 1, 2, …; at most tokens.size().
  std::uint32_t pristine_cells = 0;
  // By block group: the first cell whose K and V are available. The restored list of a window group
  // starts at first_cell or at a later cell, because cells that the next token does not reach are
  // omitted. first_cell is 0 for groups without a window.
  std::array<std::uint32_t, layout::kGroupsMax> first_cell = {};
  bool has_state = false;  // the state after the last cell is available
  // The cell counts at which checkpoints are available: ascending, above 0, at most tokens.size().
  // The checkpoint at tokens.size() is the state after the last cell.
  std::span<const std::uint32_t> checkpoint_cells{};
  bool has_logits = false;
  // True: the caller calls Memory::GrowBlock for each block before it fills the block.
  bool grows_later = false;
  RequestTag applied{};  // recorded with the commit
};

// The cells and the slots for recurrent states and logits that are reserved for a restore. For each
// group the caller writes K and V of the cells from the first_cell of the group's part on. The
// caller also writes the slots (f32 values at Memory::StateBytes and LogitsBytes), and then commits
// the restore.
struct Restore {
  SequenceHandle handle = SequenceHandle::kNone;
  // By block group; the cells' stored and effective positions are equal.
  std::array<GroupPart, layout::kGroupsMax> parts;
  std::uint32_t cell_count = 0;
  std::uint32_t cross_cells = 0;
  std::uint32_t pristine_cells = 0;
  std::int32_t next_pos = 0;
  std::uint32_t state_slot = layout::kNoSlot;
  std::uint32_t logits_slot = layout::kNoSlot;  // kNoSlot: not requested, or no row is available
  // The requested checkpoints, ordered by cell_count. If there is not enough room for all of them,
  // only the last checkpoints are restored.
  std::vector<layout::Checkpoint> checkpoints;
  std::uint64_t content_number = 0;  // the number at Begin; the commit fails if it has changed
  RequestTag applied;
  Reservation reservation;  // open until the commit
};

// Holds: keeps the content of a sequence readable as it was when the hold began. Holds is
// a part of Memory. Threads: any.
//
// A hold consists of references to a sequence's blocks and slots that only this process knows. The
// tables that are derived from `meta` do not count the references of holds, so a hold needs no
// commit, and a killed process leaves no hold.
class Holds {
 public:
  explicit Holds(MemoryStore& store) : store_(store) {}
  Holds(const Holds&) = delete;
  Holds& operator=(const Holds&) = delete;

  // Keeps the sequence's cells, state, checkpoints and row of logits readable until Release, even
  // if the sequence is edited or dropped. Error: kNotFound.
  Status Begin(SequenceHandle handle, SequenceHold* hold);
  void Release(SequenceHold& hold);
  // Reads tokens and effective positions of the cells [first_cell, first_cell + count) of a
  // sequence; fewer cells if the sequence ends earlier. No edit takes effect between the reads of
  // two cells by one call of ReadCells. To read more than kCellsReadAtOnce cells, ReadCells takes a
  // brief hold and reads the cells without the mutex. Error: kNotFound.
  static constexpr std::uint32_t kCellsReadAtOnce = 1024;
  Status ReadCells(SequenceHandle handle, std::uint32_t first_cell, std::uint32_t count,
                   std::vector<TokenId>* tokens, std::vector<Pos>* positions);

 private:
  MemoryStore& store_;
};

// Restores: fills an empty sequence with content from elsewhere, for instance from a file.
// Restores is a part of Memory. Threads: any.
class Restores {
 public:
  explicit Restores(MemoryStore& store) : store_(store) {}
  Restores(const Restores&) = delete;
  Restores& operator=(const Restores&) = delete;

  // Reserves new cells and slots for the content of an empty sequence. The cells and slots belong
  // to no sequence until Commit. Errors: kNotFound; kPermission (published); kExists (the sequence
  // is not empty); kInvalidArgument (a number of the request is out of its range, named in the
  // message); kWindowLost (the next token would reach cells before first_cell); kUnsupported (the
  // model has no recurrent state or no encoder for the given content); kNoSpace, with the numbers.
  Result<Restore> Begin(const RestoreRequest& request);
  // Gives the whole content to the sequence in one commit and ends the restore, also on error.
  // Errors: kConflict (the sequence was changed or dropped), kNoSpace (lists); nothing has changed
  // then. REQUIRES: the restore is open.
  Status Commit(Restore& restore);

 private:
  Status CheckRestore(const RestoreRequest& request) const KVD_REQUIRES(store_.mutex);
  // The sequence of the handle, which must be empty. Errors: kNotFound, kPermission, kExists.
  Result<FoundSequence> FindEmpty(SequenceHandle handle) const KVD_REQUIRES(store_.mutex);
  Result<Restore> TryBegin(const RestoreRequest& request);
  Status ReserveRestored(const RestoreRequest& request, const layout::SequenceRecord& record,
                         Restore* restore) KVD_REQUIRES(store_.growth_mutex, store_.mutex);
  void ReserveRestoredSlots(const RestoreRequest& request, const layout::SequenceRecord& record,
                            Restore* restore) KVD_REQUIRES(store_.mutex);
  // Makes the bytes of the reserved blocks and slots safe to write, some blocks at a time.
  Status GrowForRestore(const Restore& restore);
  void WriteRestoredCells(const RestoreRequest& request, const Restore& restore);
  Status CommitRestored(std::uint32_t index, Restore& restore) KVD_REQUIRES(store_.mutex);

  MemoryStore& store_;
};

}  // namespace kvd
