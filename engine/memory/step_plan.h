// The plan of one step: which tokens are appended to which sequences, what they see, and where their
// cells and states go. Plain data, copied out of the memory, so that a step computes without its lock.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/memory/extents.h"
#include "engine/memory/request_tag.h"
#include "shm/ids.h"
#include "shm/segment_layout.h"

namespace kvd {

// The cells of one block group that a step's sequence sees, and where its new ones go.
struct GroupPart {
  // Over past and new cells together, in order; `start` is the ordinal in the sequence, also in a
  // window group, whose first extent starts at first_cell. New cells have the delta of the last
  // past extent of group 0 (0 for an empty sequence).
  std::vector<layout::Extent> extents;
  std::uint32_t first_cell = 0;        // ordinal of the first cell that the group still holds
  std::uint32_t cell_count = 0;        // ordinal behind the last cell, new ones included
  std::uint32_t first_new_extent = 0;  // index of the extent that holds the first new cell;
                                       // extents.size() where the group gets no new cell
  ExtentView view() const { return {extents, cell_count}; }
};

// One sequence's part of a step: what its new tokens see, and where their cells and state go. Valid
// from Reserve until Commit or Abandon of the whole step. Extents are copies: metadata verbs may go
// on meanwhile.
struct StepSequence {
  SequenceHandle handle = SequenceHandle::kNone;
  std::uint32_t past_cells = 0;  // committed cells before the new ones
  std::uint32_t new_cells = 0;
  Pos first_new_pos;  // effective position of the first new token
  // By block group. Groups without a window hold past_cells + new_cells cells; the cross group
  // holds those of the encoded text and gets none.
  std::array<GroupPart, layout::kGroupsMax> groups;
  RequestTag applied;               // whose tokens they are
  layout::SamplerRecord sampler{};  // of AppendRequest
  // Recurrent state before the first new token (kNoSlot: zeros) and where the one behind the last
  // is written, all of it: Memory::StateBytes. Both kNoSlot for a model without state.
  std::uint32_t state_from = layout::kNoSlot;
  std::uint32_t state_to = layout::kNoSlot;
  std::vector<TokenId> tokens;    // the new tokens
  std::uint32_t key_form = 0;     // of the new cells; the engine sees to it that all past ones have
                                  // it too
  std::uint64_t edit_number = 0;  // of the record when reserved
};

struct AppendRequest {
  SequenceHandle handle = SequenceHandle::kNone;
  Pos pos;                          // must be the sequence's next position
  std::span<const TokenId> tokens;  // at least one; range-checked by the caller
  std::uint32_t key_form = 0;       // layout::CellRecord::key_form of the new cells
  // Whose tokens they are: committed with them, so that the request can be gone on with.
  RequestTag applied{};
  // What drew the last one, kept from this commit on; flags 0: the sequence's own stays.
  layout::SamplerRecord sampler{};
};

// The plan of one step. Reused from step to step so that nothing is allocated per token.
struct StepPlan {
  std::vector<StepSequence> sequences;  // [0, count)
  std::size_t count = 0;
  static constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t failed = kNone;  // index of the request for which Reserve failed; kNone: for all
};

}  // namespace kvd
