// Edits of a sequence's cells. An edit makes the sequence's new lists, in every block group, from
// runs of cells of one or two sequence records; the edit may shift the cells. No edit reads or
// writes the pool.
#pragma once

#include <cstdint>
#include <span>

#include "engine/memory/state_slots.h"
#include "engine/memory/transaction.h"

namespace kvd {

struct CellRewrite;

// The cells [begin, end) of a record, shifted by `delta`. If `rewrite` is set, the fresh cells of
// the rewrite replace the cells of the range. An edit concatenates its source ranges.
struct SourceRange {
  const layout::SequenceRecord* record = nullptr;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::int32_t delta = 0;
  const CellRewrite* rewrite = nullptr;
};

struct CellEdit {
  std::uint32_t index = 0;  // index of the sequence's record
  std::span<const SourceRange> sources;
  std::uint32_t pristine_cells = 0;
  NewState state{};
  // The record from which the sequence gets its encoded text if the sequence has none; null: the
  // sequence's encoded text does not change.
  const layout::SequenceRecord* cross_source = nullptr;
};

// Sets store.scratch.edits[group] to the block ranges of all cells of the sources.
void BuildRanges(MemoryStore& store, std::uint32_t group, std::span<const SourceRange> sources)
    KVD_REQUIRES(store.mutex);

// Returns the sequence's record with the cells of the sources in every group except the cross
// group, and with the state of `edit`. The new lists are written; the caller puts the record into
// the transaction. Errors: kNoSpace, kWindowLost.
Result<layout::SequenceRecord> EditCells(MemoryStore& store, Transaction& transaction,
                                         const CellEdit& edit) KVD_REQUIRES(store.mutex);

// Returns the sequence's record cut to its first cell_count cells. The lists are shortened in
// place, not copied. Errors: kNeedsReplay, kWindowLost.
Result<layout::SequenceRecord> CutTail(MemoryStore& store, const Transaction& transaction,
                                       std::uint32_t index, std::uint32_t cell_count)
    KVD_REQUIRES(store.mutex);

}  // namespace kvd
