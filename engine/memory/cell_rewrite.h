// A rewrite in slices: dividing positions, settling shifted cells and changing the form of keys need
// other K bytes. The cells are rotated into fresh blocks, some at a time, and one commit at the end
// makes the sequence refer to those.
//
// Like a restore it reserves blocks that nothing committed refers to: a killed process leaves
// nothing behind, and an abandoned rewrite has changed nothing.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/memory/memory.h"

namespace kvd {

struct RewriteRequest {
  enum class Kind : std::uint8_t { kDivide, kSettle, kChangeForm };
  SequenceHandle handle = SequenceHandle::kNone;
  Kind kind = Kind::kDivide;
  PosRange range;                                         // kDivide
  std::int32_t divisor = 1;                               // kDivide
  Memory::SettleScope scope = Memory::SettleScope::kAll;  // kSettle
  std::uint32_t key_form = 0;                             // kChangeForm
  // False: kNoSpace, where fresh blocks could be had by evicting retained sequences alone.
  bool may_evict = true;
  AppliedRequest applied{};  // remembered with the commit
};

// Plain data, valid from Memory::BeginRewrite until the rewrite is over.
struct CellRewrite {
  struct Group {
    std::uint32_t first_cell = 0;     // ordinal of the first cell to rewrite
    std::uint32_t done = 0;           // cells rewritten so far
    std::vector<Piece> destinations;  // fresh blocks, delta 0
  };
  SequenceHandle handle = SequenceHandle::kNone;
  std::uint64_t content_number = 0;       // of the sequence, for the commit
  std::int32_t divisor = 1;               // of the positions
  std::optional<std::uint32_t> key_form;  // unset: as it was
  std::uint32_t begin_cell = 0;           // ordinals [begin_cell, end_cell) are rewritten
  std::uint32_t end_cell = 0;
  AppliedRequest applied;
  std::array<Group, layout::kGroupsMax> groups;
  std::uint32_t cells_left = 0;  // of all groups
  bool is_open = false;          // false: it is over, or there was nothing to rewrite

  std::uint32_t cell_count() const { return end_cell - begin_cell; }
};

}  // namespace kvd
