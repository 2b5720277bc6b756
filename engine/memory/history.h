// The history of a sequence: the sequence that it was forked from, and its last edits.
//
// The parent and the number of edits are in the sequence's record; the edits are in a ring of
// kEditsKept records per sequence. The commit of an edit updates the record and the ring. A fork
// begins with an empty history. An edit is a removal, a copy into the sequence, a shift or a
// division that changed a cell. Appending tokens, filling an empty sequence and moving its cells in
// the pool are not edits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/memory/memory_info.h"
#include "engine/memory/transaction.h"

namespace kvd {

struct NotedEdit {
  std::uint32_t index = 0;  // index of the edited sequence
  layout::EditKind kind = layout::kEditRemoved;
  const layout::SequenceRecord* of = nullptr;  // the record that the cells belong to
  CellRange cells;                             // not empty
  std::int32_t delta = 0;                      // layout::EditRecord::delta
};

// Puts the edit, with the kind of the transaction's request, into the transaction, and increments
// the edit count of `record`, which the caller must put too.
void NoteEdit(MemoryStore& store, Transaction& transaction, const NotedEdit& edit,
              layout::SequenceRecord* record) KVD_REQUIRES(store.mutex);

// The edits that are kept for a sequence with edit_count edits, the oldest first. `places`: the
// whole ring of the sequence's edit records.
std::vector<SequenceEdit> EditsOf(std::span<const layout::EditRecord> places,
                                  std::uint32_t edit_count);

}  // namespace kvd
