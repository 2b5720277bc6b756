// Edits of a sequence's cells: runs of cells of one or two records, shifted or not, become its new lists
// in every block group. None touches the pool.
#pragma once

#include <cstdint>
#include <span>

#include "engine/memory/state_slots.h"
#include "engine/memory/transaction.h"

namespace kvd {

struct CellRewrite;

// Cells [begin, end) of a record, shifted; or the fresh cells that were written in their place.
// An edit makes a sequence of segments, one after the other.
struct Segment {
  const layout::SequenceRecord* record = nullptr;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::int32_t delta = 0;
  const CellRewrite* rewrite = nullptr;
};

struct CellEdit {
  std::uint32_t index = 0;  // of the sequence
  std::span<const Segment> segments;
  std::uint32_t pristine_cells = 0;
  NewState state{};
  const layout::SequenceRecord* cross_source =
      nullptr;  // its encoded text, where there is none yet
};

// store.scratch.edits[group] = the pieces of the segments.
void BuildPieces(MemoryStore& store, std::uint32_t group, std::span<const Segment> segments)
    KVD_REQUIRES(store.mutex);

// The sequence's record with the cells of the segments in every group but the cross group, and the
// state; its lists are written, and it is not put yet. Errors: kNoSpace, kWindowLost.
Result<layout::SequenceRecord> EditCells(MemoryStore& store, Transaction& transaction,
                                         const CellEdit& edit) KVD_REQUIRES(store.mutex);

// The sequence's record with its first cell_count cells: its lists are cut in their place. Errors:
// kNeedsReplay, kWindowLost.
Result<layout::SequenceRecord> CutTail(MemoryStore& store, const Transaction& transaction,
                                       std::uint32_t index, std::uint32_t cell_count)
    KVD_REQUIRES(store.mutex);

}  // namespace kvd
