// Lists in the arena, and how a record that refers to other lists and slots is committed and then
// counted.
#include <algorithm>
#include <string>

#include "engine/memory/record_functions.h"
#include "engine/memory/unified_memory.h"
#include "shm/check.h"
#include "shm/crc32c.h"

namespace kvd {

// ------------------------------------------------------------------------------------------- lists

Result<layout::ListRoot> UnifiedMemory::AllocateList(std::uint32_t entry_count) {
  if (entry_count == 0) return kEmptyList;
  const std::uint32_t units = ListUnitsFor(entry_count);
  const std::optional<std::uint32_t> first = tables_.lists.Allocate(units);
  if (!first) return NoListUnits(units);
  return layout::ListRoot{*first, units, entry_count, 0};
}

Result<layout::ListRoot> UnifiedMemory::WriteList(std::span<const Piece> pieces,
                                                  std::uint32_t first_cell) {
  KVD_TRY(layout::ListRoot root, AllocateList(static_cast<std::uint32_t>(pieces.size())));
  if (root.entry_count == 0) return root;
  StoreExtents(pieces, first_cell, meta_.list(root.first_unit));
  root.crc = Crc32c(0, std::as_bytes(meta_.entries(root)));
  return root;
}

Result<layout::ListRoot> UnifiedMemory::CopyList(const layout::ListRoot& source,
                                                 std::uint32_t entry_count) {
  KVD_TRY(layout::ListRoot root, AllocateList(entry_count));
  if (root.entry_count == 0) return root;
  const auto entries = meta_.entries(source).first(entry_count);
  std::copy(entries.begin(), entries.end(), meta_.list(root.first_unit));
  // A copy of all entries has their sum: what was damaged in the source stays visible in the copy.
  root.crc = entry_count == source.entry_count ? source.crc : Crc32c(0, std::as_bytes(entries));
  return root;
}

Result<layout::ListRoot> UnifiedMemory::WriteCheckpoints(
    std::span<const layout::Checkpoint> checkpoints) {
  KVD_TRY(layout::ListRoot root, AllocateList(static_cast<std::uint32_t>(checkpoints.size())));
  if (root.entry_count == 0) return root;
  std::copy(checkpoints.begin(), checkpoints.end(), meta_.checkpoint_list(root.first_unit));
  root.crc = Crc32c(0, std::as_bytes(meta_.checkpoints(root)));
  return root;
}

layout::ListRoot UnifiedMemory::CutCheckpoints(const layout::ListRoot& root,
                                               std::size_t count) const {
  if (count == root.entry_count) return root;
  if (count == 0) return kEmptyList;
  layout::ListRoot cut = root;
  cut.entry_count = static_cast<std::uint32_t>(count);
  cut.crc = Crc32c(0, std::as_bytes(meta_.checkpoints(cut)));
  return cut;
}

void UnifiedMemory::FreeList(const layout::ListRoot& root) {
  if (root.capacity_units != 0) tables_.lists.Free(root.first_unit, root.capacity_units);
}

void UnifiedMemory::FreeReplaced(const layout::ListRoot& gone, const layout::ListRoot& kept) {
  if (gone.first_unit != kept.first_unit) FreeList(gone);
}

// ------------------------------------------------------------------------------------------ commit

void UnifiedMemory::PutRecord(std::uint32_t index, const layout::SequenceRecord& record) {
  log_.Put(meta_.sequence_offset(index), std::as_bytes(std::span(&record, 1)));
}

void UnifiedMemory::PutFreed(std::uint32_t index) {
  // The first 8 bytes alone, so that one record can free every sequence there is.
  static_assert(offsetof(layout::SequenceRecord, generation) == 0 &&
                offsetof(layout::SequenceRecord, flags) == 4);
  const std::uint32_t next = meta_.sequences()[index].generation + 1;
  const std::uint32_t start[2] = {next == 0 ? 1 : next, 0};
  log_.Put(meta_.sequence_offset(index), std::as_bytes(std::span(start)));
}

Status UnifiedMemory::CommitRecord(std::uint32_t index, const layout::SequenceRecord& record,
                                   std::uint32_t cells) {
  const layout::SequenceRecord old = meta_.sequences()[index];
  log_.Begin();
  PutRecord(index, record);
  PutApplied(MakeHandle(index, record.generation), cells);
  KVD_CHECK_OK(log_.Commit());
  RecountSlots(old, record, holders_[index]);
  SyncPrefix(index);
  return {};
}

void UnifiedMemory::BuildPieces(std::uint32_t group, std::span<const Segment> segments) {
  GroupEdit& edit = edits_[group];
  edit.new_pieces.clear();
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
      AppendRewritten(*segment.rewrite, group, &edit.new_pieces);
      continue;
    }
    moved_pieces_.clear();
    AppendCells(&moved_pieces_, ViewOf(*segment.record, group), segment.begin + skipped,
                segment.end);
    for (Piece piece : moved_pieces_) {
      piece.delta += segment.delta;
      AppendPiece(&edit.new_pieces, piece);
    }
  }
}

Status UnifiedMemory::ReplaceLists(std::uint32_t index, std::span<const Segment> segments,
                                   std::uint32_t pristine_cells, const NewState& state,
                                   std::uint32_t cells,
                                   const layout::SequenceRecord* cross_source) {
  const layout::SequenceRecord old = meta_.sequences()[index];
  layout::SequenceRecord record = old;
  std::uint32_t written = 0;  // groups whose lists are
  const auto undo = [&](Status status) {
    mutex_.AssertHeld();
    for (std::uint32_t group = 0; group < written; ++group) {
      FreeReplaced(record.extents[group], old.extents[group]);
    }
    FreeReplaced(state.checkpoints, old.checkpoints);
    return status;
  };
  record.cell_count = 0;
  for (const Segment& segment : segments) record.cell_count += segment.end - segment.begin;
  for (; written < group_count(); ++written) {
    const std::uint32_t group = written;
    GroupEdit& edit = edits_[group];
    if (is_cross(group)) {
      edit.old_pieces.clear();
      edit.new_pieces.clear();
      if (cross_source == nullptr || old.cross_cells != 0 || cross_source->cross_cells == 0)
        continue;
      const layout::ListRoot& source = cross_source->extents[group];
      Result<layout::ListRoot> root = CopyList(source, source.entry_count);
      if (!root) return undo(std::unexpected(std::move(root).error()));
      record.extents[group] = *root;
      record.cross_cells = cross_source->cross_cells;
      AppendEntries(&edit.new_pieces, ViewOf(record, group), 0);
      continue;
    }
    const ExtentView view = ViewOf(old, group);
    edit.old_pieces.clear();
    AppendEntries(&edit.old_pieces, view, 0);
    BuildPieces(group, segments);
    if (group == 0) {
      record.next_pos =
          record.cell_count == 0
              ? 0
              : static_cast<std::int32_t>(PositionIn(edit.new_pieces, record.cell_count - 1) + 1);
    }
    if (edit.first_cell > 0) {
      const std::int64_t last_dropped = PositionIn(edits_[0].new_pieces, edit.first_cell - 1);
      if (Status status = CheckWindow(group, last_dropped, record.next_pos); !status) {
        return undo(std::move(status));
      }
    }
    Result<layout::ListRoot> root = WriteList(edit.new_pieces, edit.first_cell);
    if (!root) return undo(std::unexpected(std::move(root).error()));
    record.extents[group] = *root;
    record.first_cell[group] = edit.first_cell;
  }
  SetPristine(&record, pristine_cells);
  record.state_slot = state.state_slot;
  record.logits_slot = state.logits_slot;
  record.checkpoints = state.checkpoints;
  if (record.cell_count != old.cell_count) EndRequest(&record);
  if (taking_ != nullptr) MarkRequest(*taking_, 0, &record);
  ++record.edit_number;
  if (Status status = CommitRecord(index, record, cells); !status) return undo(std::move(status));
  ++content_numbers_[index];
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    RecountPieces(group, holders_[index]);
    FreeReplaced(old.extents[group], record.extents[group]);
  }
  FreeReplaced(old.checkpoints, record.checkpoints);
  SettleFreed();
  return {};
}

// ----------------------------------------------------------------------------------------- recount

void UnifiedMemory::RecountPieces(std::uint32_t group, Holder holder) {
  const std::vector<Piece>& old_pieces = edits_[group].old_pieces;
  const std::vector<Piece>& new_pieces = edits_[group].new_pieces;
  const auto same = [](const Piece& a, const Piece& b) {
    return a.block == b.block && a.first == b.first && a.count == b.count;
  };
  // Most edits leave both ends of the list as they were.
  std::size_t begin = 0;
  std::size_t old_end = old_pieces.size();
  std::size_t new_end = new_pieces.size();
  while (begin < old_end && begin < new_end && same(old_pieces[begin], new_pieces[begin])) ++begin;
  while (begin < old_end && begin < new_end &&
         same(old_pieces[old_end - 1], new_pieces[new_end - 1])) {
    --old_end;
    --new_end;
  }
  // Added first: a block that stays is never without a reference.
  BlockTable& blocks = tables_.blocks[group];
  for (std::size_t at = begin; at < new_end; ++at) blocks.Add(new_pieces[at], holder);
  for (std::size_t at = begin; at < old_end; ++at) {
    blocks.Drop(old_pieces[at], holder, &freed_.blocks[group]);
  }
}

void UnifiedMemory::RecountSlots(const layout::SequenceRecord& old,
                                 const layout::SequenceRecord& record, Holder holder) {
  if (old.state_slot == record.state_slot && old.logits_slot == record.logits_slot &&
      old.checkpoints == record.checkpoints) {
    return;
  }
  // Added first, as above.
  tables_.AddSlots(meta_, record, holder);
  tables_.DropSlots(meta_, old, holder, &freed_);
}

void UnifiedMemory::SettleFreed() {
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    for (const std::uint32_t block : freed_.blocks[group]) allocators_[group].Unreferenced(block);
    freed_.blocks[group].clear();
  }
  for (const std::uint32_t slot : freed_.states) states_.Unreferenced(slot);
  for (const std::uint32_t slot : freed_.logits) logits_.Unreferenced(slot);
  freed_.states.clear();
  freed_.logits.clear();
}

void UnifiedMemory::ReturnUnusedSlabs() {
  if (!segments_.pool.has_unused()) return;
  if (!growth_mutex_.TryLock()) return;
  segments_.pool.PunchUnused();
  growth_mutex_.Unlock();
}

}  // namespace kvd
