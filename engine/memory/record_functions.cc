#include "engine/memory/record_functions.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/clock.h"
#include "base/text.h"

namespace kvd {

// ---- record functions
std::string HandleText(SequenceHandle handle) {
  return Concat("sequence ", static_cast<std::uint64_t>(handle));
}

void SetPristine(layout::SequenceRecord* record, std::uint32_t pristine_cells) {
  record->pristine_cells = std::min(pristine_cells, record->cell_count);
  if (record->pristine_cells < record->cell_count) {
    record->flags |= layout::kSequenceEdited;
  } else {
    record->flags &= ~static_cast<std::uint32_t>(layout::kSequenceEdited);
  }
}

void MarkRequest(const RequestTag& tag, std::uint32_t past_cells, layout::SequenceRecord* record) {
  const auto request = static_cast<std::uint64_t>(tag.request);
  const auto session = static_cast<std::uint64_t>(tag.session);
  if (record->request == request && record->request_session == session) return;
  record->request = request;
  record->request_session = request != 0 ? session : 0;
  record->request_first_cell = request != 0 ? past_cells : 0;
  // Cells after past_cells belong to the new request, so the stored sampler state covers at most
  // the first past_cells cells.
  record->sampler.cell_count = std::min(record->sampler.cell_count, past_cells);
}

std::uint32_t CountDeltas(ExtentView view) {
  // Neighbouring extents usually have the same delta, so only the first delta of each run of equal
  // deltas is kept for sorting.
  std::vector<std::int32_t> deltas;
  for (const layout::Extent& extent : view.entries) {
    if (deltas.empty() || deltas.back() != extent.delta) deltas.push_back(extent.delta);
  }
  std::sort(deltas.begin(), deltas.end());
  return static_cast<std::uint32_t>(std::unique(deltas.begin(), deltas.end()) - deltas.begin());
}

// ---- history

namespace {

using layout::kEditsKept;

// An edit's place is its number modulo kEditsKept. The edit after edit count 2^32 - 1 sets the
// count to 2^32 - kEditsKept instead of 0. The next edit then has the same place as with 0, because
// 2^32 is a multiple of kEditsKept, and all kept edits still count as kept.
static_assert((std::uint64_t{1} << 32) % kEditsKept == 0);

std::uint32_t CountAnother(std::uint32_t edit_count) {
  return edit_count == ~0u ? ~0u - kEditsKept + 1 : edit_count + 1;
}

// Keeps the number of cells before the grammar's first token right when cells are removed. Of a
// removed range that reaches into the grammar's tokens, the remaining tokens stay the grammar's.
void MoveGrammar(const NotedEdit& edit, layout::SequenceRecord* record) {
  std::uint32_t& begin = record->sampler.grammar_begin;
  if (edit.kind == layout::kEditRemoved && edit.cells.begin < begin) {
    begin -= std::min(begin, edit.cells.end) - edit.cells.begin;
  }
}

}  // namespace

void NoteEdit(MemoryStore& store, Transaction& transaction, const NotedEdit& edit,
              layout::SequenceRecord* record) {
  const CellList cells = store.CellsOf(*edit.of);
  transaction.PutEdit(edit.index, record->edit_count % kEditsKept,
                      {.unix_ms = NowUnixMs(),
                       .first = static_cast<std::int32_t>(cells.PositionAt(edit.cells.begin)),
                       .end = static_cast<std::int32_t>(cells.PositionAt(edit.cells.end - 1)) + 1,
                       .delta = edit.delta,
                       .kind = edit.kind,
                       .verb = transaction.tag().kind});
  record->edit_count = CountAnother(record->edit_count);
  MoveGrammar(edit, record);
}

std::vector<SequenceEdit> EditsOf(std::span<const layout::EditRecord> places,
                                  std::uint32_t edit_count) {
  const std::uint32_t kept = std::min(edit_count, kEditsKept);
  std::vector<SequenceEdit> edits;
  edits.reserve(kept);
  for (std::uint32_t number = edit_count - kept; number != edit_count; ++number) {
    const layout::EditRecord& record = places[number % kEditsKept];
    edits.push_back({.unix_ms = record.unix_ms,
                     .range = {Pos{record.first}, Pos{record.end}},
                     .delta = record.delta,
                     .kind = static_cast<layout::EditKind>(record.kind),
                     .request_kind = record.verb});
  }
  return edits;
}

}  // namespace kvd
