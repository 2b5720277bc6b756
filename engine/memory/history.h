// The history of a sequence: from what it was forked, and the last edits of its cells.
//
// Parent and number of edits lie in the sequence's record; the edits in places of their own, used
// in turn. Both change in the commit of the edit. A fork begins a history of its own. Edits are
// removals, copies into the sequence, shifts and divisions that changed a cell; what appends to a
// sequence, fills an empty one or moves its cells in the pool is none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/memory/memory_info.h"
#include "engine/memory/transaction.h"

namespace kvd {

struct NotedEdit {
  std::uint32_t index = 0;  // of the edited sequence
  layout::EditKind kind = layout::kEditRemoved;
  const layout::SequenceRecord* of = nullptr;  // whose cells
  CellRange cells;                             // not empty
  std::int32_t delta = 0;                      // layout::EditRecord::delta
};

// Puts the edit, on behalf of the transaction's request, and counts it in the record of its
// sequence, which is to be put too.
void NoteEdit(MemoryStore& store, Transaction& transaction, const NotedEdit& edit,
              layout::SequenceRecord* record) KVD_REQUIRES(store.mutex);

// Those that are kept of edit_count ones, the oldest first. `places`: of the sequence, all.
std::vector<SequenceEdit> EditsOf(std::span<const layout::EditRecord> places,
                                  std::uint32_t edit_count);

}  // namespace kvd
