#include "engine/memory/cell_edit.h"

#include <algorithm>
#include <string>

#include "base/crc32c.h"
#include "engine/memory/cell_rewrites.h"
#include "engine/memory/record_functions.h"

namespace kvd {

void BuildRanges(MemoryStore& store, std::uint32_t group, std::span<const SourceRange> sources) {
  TransactionScratch::GroupEdit& edit = store.scratch.edits[group];
  edit.ranges.clear();
  edit.first_cell = 0;
  // A group holds the last cells of a sequence, without gaps: all cells before a dropped cell are
  // dropped too.
  std::uint32_t at = 0;
  for (const SourceRange& source : sources) {
    const std::uint32_t first = std::min(source.record->first_cell[group], source.end);
    if (first > source.begin) edit.first_cell = at + (first - source.begin);
    at += source.end - source.begin;
  }
  at = 0;
  for (const SourceRange& source : sources) {
    const std::uint32_t count = source.end - source.begin;
    const std::uint32_t skipped = edit.first_cell > at ? std::min(count, edit.first_cell - at) : 0u;
    at += count;
    if (skipped == count) continue;
    if (source.rewrite != nullptr) {
      for (const BlockRange& range : source.rewrite->groups[group].destinations) {
        AppendPiece(&edit.ranges, range);
      }
      continue;
    }
    std::vector<BlockRange>& moved = store.scratch.moved_pieces;
    moved.clear();
    AppendCells(&moved, store.ViewOf(*source.record, group), source.begin + skipped, source.end);
    for (BlockRange range : moved) {
      range.delta += source.delta;
      AppendPiece(&edit.ranges, range);
    }
  }
}

Result<layout::SequenceRecord> EditCells(MemoryStore& store, Transaction& transaction,
                                         const CellEdit& edit) {
  const layout::SequenceRecord& old = store.meta.sequences()[edit.index];
  layout::SequenceRecord record = old;
  record.cell_count = 0;
  for (const SourceRange& source : edit.sources) record.cell_count += source.end - source.begin;
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
    BuildRanges(store, group, edit.sources);
    const std::uint32_t first_cell = edits[group].first_cell;
    if (group == 0) {
      record.next_pos = record.cell_count == 0
                            ? 0
                            : static_cast<std::int32_t>(
                                  store.PositionIn(edits[0].ranges, record.cell_count - 1) + 1);
    }
    if (first_cell > 0) {
      const std::int64_t last_dropped = store.PositionIn(edits[0].ranges, first_cell - 1);
      KVD_CHECK_OK(store.CheckWindow(group, last_dropped, record.next_pos));
    }
    KVD_TRY(record.extents[group], transaction.WriteList(edits[group].ranges, first_cell));
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
    // The new list is the beginning of the old one, in place: entries after entry_count are not
    // committed.
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
