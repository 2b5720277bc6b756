#include "engine/memory/cell_edit.h"

#include <algorithm>
#include <string>

#include "engine/memory/cell_rewrite.h"
#include "engine/memory/record_functions.h"
#include "shm/crc32c.h"

namespace kvd {

void BuildPieces(MemoryStore& store, std::uint32_t group, std::span<const Segment> segments) {
  TransactionScratch::GroupEdit& edit = store.scratch.edits[group];
  edit.pieces.clear();
  edit.first_cell = 0;
  // A group holds a sequence's last cells: whatever lies before a dropped cell goes too.
  std::uint32_t at = 0;
  for (const Segment& segment : segments) {
    const std::uint32_t first = std::min(segment.record->first_cell[group], segment.end);
    if (first > segment.begin) edit.first_cell = at + (first - segment.begin);
    at += segment.end - segment.begin;
  }
  at = 0;
  for (const Segment& segment : segments) {
    const std::uint32_t count = segment.end - segment.begin;
    const std::uint32_t skipped = edit.first_cell > at ? std::min(count, edit.first_cell - at) : 0u;
    at += count;
    if (skipped == count) continue;
    if (segment.rewrite != nullptr) {
      for (const Piece& piece : segment.rewrite->groups[group].destinations) {
        AppendPiece(&edit.pieces, piece);
      }
      continue;
    }
    std::vector<Piece>& moved = store.scratch.moved_pieces;
    moved.clear();
    AppendCells(&moved, store.ViewOf(*segment.record, group), segment.begin + skipped, segment.end);
    for (Piece piece : moved) {
      piece.delta += segment.delta;
      AppendPiece(&edit.pieces, piece);
    }
  }
}

Result<layout::SequenceRecord> EditCells(MemoryStore& store, Transaction& transaction,
                                         const CellEdit& edit) {
  const layout::SequenceRecord& old = store.meta.sequences()[edit.index];
  layout::SequenceRecord record = old;
  record.cell_count = 0;
  for (const Segment& segment : edit.segments) record.cell_count += segment.end - segment.begin;
  const auto& edits = store.scratch.edits;
  for (std::uint32_t group = 0; group < store.group_count(); ++group) {
    if (store.is_cross(group)) {
      if (edit.cross_source == nullptr || old.cross_cells != 0) continue;
      if (edit.cross_source->cross_cells == 0) continue;
      const layout::ListRoot& source = edit.cross_source->extents[group];
      KVD_TRY(record.extents[group], transaction.CopyList(source, source.entry_count));
      record.cross_cells = edit.cross_source->cross_cells;
      continue;
    }
    BuildPieces(store, group, edit.segments);
    const std::uint32_t first_cell = edits[group].first_cell;
    if (group == 0) {
      record.next_pos = record.cell_count == 0
                            ? 0
                            : static_cast<std::int32_t>(
                                  store.PositionIn(edits[0].pieces, record.cell_count - 1) + 1);
    }
    if (first_cell > 0) {
      const std::int64_t last_dropped = store.PositionIn(edits[0].pieces, first_cell - 1);
      KVD_CHECK_OK(store.CheckWindow(group, last_dropped, record.next_pos));
    }
    KVD_TRY(record.extents[group], transaction.WriteList(edits[group].pieces, first_cell));
    record.first_cell[group] = first_cell;
  }
  SetPristine(&record, edit.pristine_cells);
  record.state_slot = edit.state.state_slot;
  record.logits_slot = edit.state.logits_slot;
  record.checkpoints = edit.state.checkpoints;
  if (record.cell_count != old.cell_count) transaction.EndRequest(&record);
  return record;
}

Result<layout::SequenceRecord> CutTail(MemoryStore& store, const Transaction& transaction,
                                       std::uint32_t index, std::uint32_t cell_count) {
  const layout::SequenceRecord& old = store.meta.sequences()[index];
  layout::SequenceRecord record = old;
  record.cell_count = cell_count;
  record.next_pos = 0;
  if (cell_count > 0) {
    record.next_pos = static_cast<std::int32_t>(store.CellsOf(old).PositionAt(cell_count - 1)) + 1;
  }
  KVD_TRY(const NewState state, StateAt(store, old, cell_count));
  record.state_slot = state.state_slot;
  record.logits_slot = state.logits_slot;
  record.checkpoints = state.checkpoints;
  for (std::uint32_t group = 0; group < store.group_count(); ++group) {
    if (store.is_cross(group)) continue;
    // The first entries of the list are the new list: entries behind entry_count are not committed.
    layout::ListRoot& root = record.extents[group];
    if (cell_count <= old.first_cell[group]) {
      root = kEmptyList;
      record.first_cell[group] = cell_count;
    } else {
      const ExtentView view = store.ViewOf(old, group);
      root.entry_count = static_cast<std::uint32_t>(FindExtent(view, cell_count - 1)) + 1;
      if (root.entry_count != old.extents[group].entry_count) {
        root.crc = Crc32c(0, std::as_bytes(store.meta.entries(root)));
      }
    }
    if (cell_count > 0 && record.first_cell[group] > 0) {
      const std::int64_t last_dropped = store.CellsOf(old).PositionAt(record.first_cell[group] - 1);
      KVD_CHECK_OK(store.CheckWindow(group, last_dropped, record.next_pos));
    }
  }
  SetPristine(&record, old.pristine_cells);
  transaction.EndRequest(&record);
  return record;
}

}  // namespace kvd
