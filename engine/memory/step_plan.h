// The plan of one step: which tokens are appended to which sequences, which cells they see, and
// where their cells and states are stored. A step plan is plain data that is copied out of the
// memory, so that a step computes without the memory's lock.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "engine/memory/extents.h"
#include "engine/memory/request_tag.h"
#include "shm/segment_layout.h"

namespace kvd {

// The cells of one block group that a sequence's tokens see in a step, and the places of its new
// cells.
struct GroupPart {
  // The extents of the past cells, followed by those of the new cells, in order. `start` is the
  // ordinal in the sequence, also in a window group, whose first extent starts at first_cell. New
  // cells have the delta of the last past extent of group 0 (0 for an empty sequence).
  std::vector<layout::Extent> extents;
  std::uint32_t first_cell = 0;  // ordinal of the first cell that the group still holds
  std::uint32_t cell_count = 0;  // ordinal after the last cell, including new ones
  // Index of the extent with the first new cell; extents.size(): the group gets no new cell.
  std::uint32_t first_new_extent = 0;
  ExtentView view() const { return {extents, cell_count}; }
};

// The part of one sequence in a step: which cells its new tokens see, and where their cells and
// state are stored. A StepSequence is valid from Reserve until Commit or Abandon. The extents of a
// StepSequence are copies, so metadata verbs may run during the step.
struct StepSequence {
  SequenceHandle handle = SequenceHandle::kNone;
  std::uint32_t past_cells = 0;  // committed cells before the new ones
  std::uint32_t new_cells = 0;
  Pos first_new_pos;  // effective position of the first new token
  // By block group. Groups without a window hold past_cells + new_cells cells. The cross group
  // holds the cells of the encoded text and gets no new cells.
  std::array<GroupPart, layout::kGroupsMax> groups;
  RequestTag applied;               // the request that the tokens belong to
  layout::SamplerRecord sampler{};  // from AppendRequest
  // The slots of the recurrent state before the first new token (kNoSlot: zeros) and after the last
  // new token. The caller writes the whole slot state_to (Memory::StateBytes). state_from and
  // state_to are kNoSlot for a model without recurrent state.
  std::uint32_t state_from = layout::kNoSlot;
  std::uint32_t state_to = layout::kNoSlot;
  std::vector<TokenId> tokens;  // the new tokens
  // Form of the keys of the new cells; the engine makes sure that the keys of all past cells have
  // the same form.
  std::uint32_t key_form = 0;
  std::uint64_t edit_number = 0;  // the record's number at Reserve
};

struct AppendRequest {
  SequenceHandle handle = SequenceHandle::kNone;
  Pos pos;                          // must be the sequence's next position
  std::span<const TokenId> tokens;  // at least one; range-checked by the caller
  std::uint32_t key_form = 0;       // layout::CellRecord::key_form of the new cells
  // The request that the tokens belong to; recorded with the commit of the tokens, so that the
  // request can be resumed.
  RequestTag applied{};
  // The sampler that drew the last token, stored by the commit; flags 0: the sequence's sampler
  // stays.
  layout::SamplerRecord sampler{};
};

// The plan of one step. Later steps use the same object again, so that no memory is allocated per
// token.
struct StepPlan {
  std::vector<StepSequence> sequences;  // the first `count` entries are in use
  std::size_t count = 0;
  static constexpr std::size_t kNone = ~std::size_t{0};
  // Index of the request that Reserve failed for; kNone: no single request.
  std::size_t failed = kNone;
};

}  // namespace kvd
