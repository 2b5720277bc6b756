// This header declares small functions over sequence records that several verbs of a memory use.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "engine/memory/extents.h"
#include "engine/memory/memory_info.h"
#include "engine/memory/request_tag.h"
#include "engine/memory/transaction.h"
#include "shm/segment_layout.h"

namespace kvd {

// The handle as error messages show it: "sequence 4294967299".
std::string HandleText(SequenceHandle handle);
// Sets pristine_cells and the flag kSequenceEdited, which depends on pristine_cells. REQUIRES:
// cell_count is set.
void SetPristine(layout::SequenceRecord* record, std::uint32_t pristine_cells);
// Marks the record as computed by the request of `tag`; past_cells: the record's cells before the
// request's step.
void MarkRequest(const RequestTag& tag, std::uint32_t past_cells, layout::SequenceRecord* record);
// The number of distinct deltas of a list.
std::uint32_t CountDeltas(ExtentView view);

// The history of a sequence: the sequence that it was forked from, and its last edits.
//
// The parent and the number of edits are in the sequence's record; the edits are in a ring of
// kEditsKept records per sequence. The commit of an edit updates the record and the ring. A fork
// begins with an empty history. An edit is a removal, a copy into the sequence, a shift or a
// division that changed a cell. Appending tokens, filling an empty sequence and moving its cells in
// the pool are not edits.
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
