// What a memory lends to whoever writes a sequence to a file, and reserves for whoever brings one
// back.
//
// A hold keeps the content of a sequence as it was, readable without the lock from any thread,
// while the sequence itself goes on, is edited or dropped. It lives in this process alone: a killed
// one leaves nothing behind.
//
// A restore is like a step: cells and slots that nothing committed refers to, filled at leisure,
// then given to an empty sequence in one commit, or given back with the restore.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/memory/memory_info.h"
#include "engine/memory/request_tag.h"
#include "engine/memory/reservation.h"
#include "engine/memory/step_plan.h"

namespace kvd {

// Plain data, valid until Holds::Release. The extents' blocks, records and slots do not change
// until then.
struct SequenceHold {
  // Asked for: it will end within a millisecond. Whoever needs blocks or slots that only such holds
  // keep waits for their end instead of being refused.
  bool is_brief = false;
  SequenceInfo info;                                // as it was
  std::array<GroupPart, layout::kGroupsMax> parts;  // by block group; no new cells
  std::uint32_t group_count = 0;
  std::uint32_t cross_group = layout::kNoSlot;  // of those, the one of an encoded text
  std::uint32_t state_slot = layout::kNoSlot;   // behind its last cell; kNoSlot: none
  std::uint32_t logits_slot = layout::kNoSlot;  // row of its last token; kNoSlot: none is kept
  std::vector<layout::Checkpoint> checkpoints;  // by cell_count
  bool is_held = false;
};

struct RestoreRequest {
  SequenceHandle handle = SequenceHandle::kNone;  // without cells and without an encoded text
  std::span<const TokenId> tokens{};              // range-checked by the caller
  std::span<const Pos> positions{};         // of the tokens, from 0, none below the one before
  std::span<const TokenId> cross_tokens{};  // of the encoded text; may be empty
  std::uint32_t key_form = 0;               // layout::CellRecord::key_form of the cells
  std::uint32_t pristine_cells = 0;         // at most tokens.size(); they are at 0, 1, …
  // By block group: the first cell whose K and V can be had. The restored group starts there or
  // later: cells that no next token reaches are left out. 0 for groups without a window.
  std::array<std::uint32_t, layout::kGroupsMax> first_cell = {};
  bool has_state = false;  // the state behind the last cell
  // Ascending, above 0, at most tokens.size(): that one is the state behind the last cell.
  std::span<const std::uint32_t> checkpoint_cells{};
  bool has_logits = false;
  // The caller makes each block safe to write with Memory::GrowBlock before it fills it.
  bool grows_later = false;
  RequestTag applied{};  // remembered with the commit
};

// What was found for a request. The caller fills K and V of every cell of `parts` from its group's
// first_cell on, the slots with Memory::StateBytes and LogitsBytes of floats, and commits.
struct Restore {
  SequenceHandle handle = SequenceHandle::kNone;
  std::array<GroupPart, layout::kGroupsMax> parts;  // stored and effective positions are the same
  std::uint32_t cell_count = 0;
  std::uint32_t cross_cells = 0;
  std::uint32_t pristine_cells = 0;
  std::int32_t next_pos = 0;
  std::uint32_t state_slot = layout::kNoSlot;
  std::uint32_t logits_slot = layout::kNoSlot;  // kNoSlot: not wanted, or there is no room for it
  // As many as there is room for, the last ones first; by cell_count.
  std::vector<layout::Checkpoint> checkpoints;
  std::uint64_t content_number = 0;  // of the sequence, for the commit
  RequestTag applied;
  Reservation reservation;  // open until the commit
};

}  // namespace kvd
