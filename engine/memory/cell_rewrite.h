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

#include "engine/memory/extents.h"
#include "engine/memory/request_tag.h"
#include "engine/memory/reservation.h"
#include "shm/error.h"
#include "shm/ids.h"
#include "shm/segment_layout.h"

namespace kvd {

// Which cells are rewritten so that they are stored at their effective positions. kShifted: the shortest
// run of cells that holds all shifted ones; kAll: every cell, if any is shifted.
enum class SettleScope : std::uint8_t { kShifted, kAll };

struct RewriteRequest {
  enum class Kind : std::uint8_t { kDivide, kSettle, kChangeForm };
  SequenceHandle handle = SequenceHandle::kNone;
  Kind kind = Kind::kDivide;
  PosRange range;                         // kDivide
  std::int32_t divisor = 1;               // kDivide, above 0
  SettleScope scope = SettleScope::kAll;  // kSettle
  // kChangeForm: the shortest run of cells that holds all whose keys have another form is rewritten, to
  // this form, at their effective positions.
  std::uint32_t key_form = 0;
  // False: kNoSpace, where fresh blocks could be had by evicting retained sequences alone.
  bool may_evict = true;
  RequestTag applied{};  // remembered with the commit
};

// A rewrite that was begun. One that goes before it is over has changed nothing.
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
  RequestTag applied;
  std::array<Group, layout::kGroupsMax> groups;
  std::uint32_t cells_left = 0;  // of all groups
  Reservation reservation;

  // False: it is over, or there was nothing to rewrite.
  bool is_open() const { return reservation.is_open(); }
  std::uint32_t cell_count() const { return end_cell - begin_cell; }
};

// Rewrites the K rows of one cell of a group: reads the cell at `source`, whose K is rotated for stored
// position `from`, and writes it to `destination` rotated for `to` (V copied). Given by the engine.
class CellRotator {
 public:
  virtual ~CellRotator() = default;
  virtual Status RotateCell(std::uint32_t group, BlockId source_block, std::uint32_t source_cell,
                            Pos from, BlockId destination_block, std::uint32_t destination_cell,
                            Pos to) = 0;
};

}  // namespace kvd
