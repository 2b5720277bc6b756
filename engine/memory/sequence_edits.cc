// Edits of ranges of positions. Each edit replaces the block ranges of the sequence's lists by
// other block ranges, and does not read or write the pool.
//
// Stored and effective positions are never negative, so their difference, the delta of an extent,
// always fits 32 bits, also after many shifts. A shift therefore only checks the new positions.
#include <algorithm>
#include <limits>
#include <string>

#include "base/crc32c.h"
#include "base/text.h"
#include "engine/memory/cell_edit.h"
#include "engine/memory/eviction.h"
#include "engine/memory/prefix_sync.h"
#include "engine/memory/record_functions.h"
#include "engine/memory/sequences.h"

namespace kvd {
namespace {

NotedEdit ShiftOf(const FoundSequence& found, CellRange shifted, std::int32_t delta) {
  return {.index = found.index,
          .kind = layout::kEditShifted,
          .of = found.record,
          .cells = shifted,
          .delta = delta};
}

}  // namespace

struct Sequences::Copy {
  CellRange cells;
  std::uint32_t at = 0;  // ordinal in the destination before which the cells are inserted
  NewState state;
};

Result<std::uint32_t> Sequences::RemoveRange(SequenceHandle handle, PosRange range,
                                             const RequestTag& tag) {
  std::uint32_t removed = 0;
  {
    const MutexLock lock(store_.mutex);
    KVD_TRY(const FoundSequence found, store_.FindMutable(handle));
    KVD_TRY(const CellRange cells, store_.FindCells(*found.record, range));
    removed = cells.end - cells.begin;
    if (removed == 0) {
      KVD_CHECK_OK(CommitNothing(store_, tag, handle));
      return removed;
    }
    KVD_CHECK_OK(RemoveFound(found, cells, tag));
  }
  store_.ReturnUnusedSlabs();
  return removed;
}

Status Sequences::RemoveFound(const FoundSequence& found, CellRange cells, const RequestTag& tag) {
  const layout::SequenceRecord& old = *found.record;
  const SequenceHandle handle = MakeHandle(found.index, old.generation);
  const bool cuts_tail = cells.end == old.cell_count;
  if (!cuts_tail && store_.has_state()) {
    return Fail(Code::kNeedsReplay, HandleText(handle), ": the ", old.cell_count - cells.end,
                " tokens after the range must be replayed");
  }
  if (!cuts_tail) MakeRoomForLists(store_, {found.index, layout::kNoSlot});
  Transaction transaction(store_, tag);
  layout::SequenceRecord record;
  if (cuts_tail) {
    KVD_TRY(record, CutTail(store_, transaction, found.index, cells.begin));
  } else {
    const SourceRange sources[] = {{&old, 0, cells.begin}, {&old, cells.end, old.cell_count}};
    KVD_TRY(record, EditCells(store_, transaction,
                              {.index = found.index,
                               .sources = sources,
                               .pristine_cells = std::min(old.pristine_cells, cells.begin)}));
  }
  NoteEdit(store_, transaction, {.index = found.index, .of = &old, .cells = cells}, &record);
  transaction.Put(found.index, record, Change::kEdited);
  transaction.Answer(handle, cells.end - cells.begin);
  return transaction.Commit();
}

Status Sequences::Clear(SequenceHandle handle, const RequestTag& tag) {
  KVD_CHECK_OK(RemoveRange(handle, PosRange{}, tag));
  return {};
}

Status Sequences::CheckCross(const layout::SequenceRecord& from,
                             const layout::SequenceRecord& to) const {
  if (to.cross_cells == 0 && to.cell_count == 0) return {};
  const std::uint32_t group = store_.geometry().cross_group;
  const ExtentView a = store_.ViewOf(from, group);
  const ExtentView b = store_.ViewOf(to, group);
  if (a.cell_count == b.cell_count &&
      std::equal(a.entries.begin(), a.entries.end(), b.entries.begin(), b.entries.end())) {
    return {};
  }
  return Fail(Code::kUnsupported, "copy: the destination has another encoded text");
}

Status Sequences::CheckCopy(const FoundSequence& from, const FoundSequence& to, Copy* copy) const {
  const layout::SequenceRecord& old = *to.record;
  const CellList source_cells = store_.CellsOf(*from.record);
  const CellList cells = store_.CellsOf(old);
  if (store_.has_state() && (copy->cells.begin != 0 || old.cell_count != 0)) {
    return Fail(
        Code::kUnsupported,
        "copy: with a recurrent state, only the source's first cells can be copied, and only "
        "into an empty sequence");
  }
  const std::int64_t first = source_cells.PositionAt(copy->cells.begin);
  const std::int64_t last = source_cells.PositionAt(copy->cells.end - 1);
  copy->at = cells.LowerBound(first);
  if (copy->at != cells.LowerBound(last + 1)) {
    return Fail(Code::kExists, HandleText(MakeHandle(to.index, old.generation)),
                ": already has position ", cells.PositionAt(copy->at),
                ", inside the copied positions ", first, " to ", last);
  }
  constexpr std::uint32_t kCellsMax = std::numeric_limits<std::int32_t>::max();
  if (copy->cells.end - copy->cells.begin > kCellsMax - old.cell_count) {
    return Fail(Code::kNoSpace, "cells of one sequence: more than ", kCellsMax);
  }
  if (store_.has_state()) {
    KVD_TRY(copy->state, StateAt(store_, *from.record, copy->cells.end));
  }
  return store_.has_cross() ? CheckCross(*from.record, old) : Status{};
}

Result<std::uint32_t> Sequences::CopyRange(SequenceHandle source, SequenceHandle destination,
                                           PosRange range, const RequestTag& tag) {
  const MutexLock lock(store_.mutex);
  if (source == destination) {
    return Fail(Code::kInvalidArgument, HandleText(source),
                ": source and destination are the same");
  }
  KVD_TRY(const FoundSequence from, store_.FindWhole(source));
  KVD_TRY(const FoundSequence to, store_.FindMutable(destination));
  Copy copy;
  KVD_TRY(copy.cells, store_.FindCells(*from.record, range));
  const std::uint32_t copied_count = copy.cells.end - copy.cells.begin;
  if (copied_count == 0) {
    KVD_CHECK_OK(CommitNothing(store_, tag, destination));
    return copied_count;
  }
  KVD_CHECK_OK(CheckCopy(from, to, &copy));
  MakeRoomForLists(store_, {from.index, to.index});
  NoteUse(store_, from.index);

  // A pristine prefix of the source stays pristine if it is copied to an empty destination.
  const layout::SequenceRecord& old = *to.record;
  const bool is_prefix = old.cell_count == 0 && copy.cells.begin == 0;
  Transaction transaction(store_, tag);
  if (store_.has_state()) {
    CollectCheckpoints(store_, *from.record, copy.cells.end, copy.state.state_slot,
                       OwnerId{old.owner});
    KVD_TRY(copy.state.checkpoints, transaction.WriteCheckpoints(store_.checkpoints));
  }
  const SourceRange sources[] = {{&old, 0, copy.at},
                                 {from.record, copy.cells.begin, copy.cells.end},
                                 {&old, copy.at, old.cell_count}};
  KVD_TRY(
      layout::SequenceRecord record,
      EditCells(store_, transaction,
                {.index = to.index,
                 .sources = sources,
                 .pristine_cells = is_prefix ? std::min(from.record->pristine_cells, copied_count)
                                             : std::min(old.pristine_cells, copy.at),
                 .state = copy.state,
                 .cross_source = from.record}));
  NoteEdit(store_, transaction,
           {.index = to.index, .kind = layout::kEditCopied, .of = from.record, .cells = copy.cells},
           &record);
  std::uint32_t& grammar_begin = record.sampler.grammar_begin;
  if (record.sampler.grammar_hash != 0 && copy.at <= grammar_begin) grammar_begin += copied_count;
  record.flags |= from.record->flags & layout::kSequenceEphemeral;
  transaction.Put(to.index, record, Change::kEdited);
  transaction.Answer(destination, copied_count);
  KVD_CHECK_OK(transaction.Commit());
  return copied_count;
}

Status Sequences::CheckShift(const layout::SequenceRecord& record, CellRange shifted,
                             std::int32_t delta) const {
  const CellList cells = store_.CellsOf(record);
  const std::int64_t first = cells.PositionAt(shifted.begin) + delta;
  const std::int64_t last = cells.PositionAt(shifted.end - 1) + delta;
  const auto moves = [&] {
    return Concat("delta: ", delta, " moves positions to ", first, " to ", last);
  };
  if (first < 0 || last > kLastPos) {
    return Fail(Code::kInvalidArgument, moves(), ", must be 0 to ", kLastPos);
  }
  if ((shifted.begin > 0 && cells.PositionAt(shifted.begin - 1) >= first) ||
      (shifted.end < cells.view.cell_count && cells.PositionAt(shifted.end) <= last)) {
    return Fail(Code::kInvalidArgument, moves(), ", onto or past cells outside of the range");
  }
  return {};
}

Status Sequences::AddPositions(SequenceHandle handle, PosRange range, std::int32_t delta,
                               const RequestTag& tag) {
  const MutexLock lock(store_.mutex);
  KVD_TRY(const FoundSequence found, store_.FindMutable(handle));
  KVD_TRY(const CellRange shifted, store_.FindCells(*found.record, range));
  if (shifted.begin == shifted.end || delta == 0) return CommitNothing(store_, tag, handle);
  KVD_CHECK_OK(CheckShift(*found.record, shifted, delta));
  MakeRoomForLists(store_, {found.index, layout::kNoSlot});

  KVD_TRY(const bool shifted_whole, ShiftWholeExtents(found, shifted, delta, tag));
  if (shifted_whole) return {};
  const layout::SequenceRecord& old = *found.record;
  const SourceRange sources[] = {{&old, 0, shifted.begin},
                                 {&old, shifted.begin, shifted.end, delta},
                                 {&old, shifted.end, old.cell_count}};
  Transaction transaction(store_, tag);
  KVD_TRY(layout::SequenceRecord record,
          EditCells(store_, transaction,
                    {.index = found.index,
                     .sources = sources,
                     .pristine_cells = std::min(old.pristine_cells, shifted.begin),
                     .state = {old.state_slot, layout::kNoSlot, old.checkpoints}}));
  NoteEdit(store_, transaction, ShiftOf(found, shifted, delta), &record);
  transaction.Put(found.index, record, Change::kEdited);
  transaction.Answer(handle, 0);
  return transaction.Commit();
}

Result<bool> Sequences::ShiftWholeExtents(const FoundSequence& found, CellRange shifted,
                                          std::int32_t delta, const RequestTag& tag) {
  if (store_.group_count() != 1) return false;
  const ExtentView view = store_.ViewOf(*found.record);
  const std::size_t first = FindExtent(view, shifted.begin);
  const std::size_t last = FindExtent(view, shifted.end - 1);
  if (view.entries[first].start != shifted.begin || view.EndOf(last) != shifted.end) return false;
  // The entries next to the range keep their deltas, and a shifted entry could get the same delta
  // as an adjacent entry that keeps its delta. A shift of whole extents would then have to join the
  // two adjacent entries.
  const auto joins = [&](std::size_t left) {
    const layout::Extent& a = view.entries[left];
    const layout::Extent& b = view.entries[left + 1];
    return a.block == b.block && a.first + view.CountOf(left) == b.first;
  };
  if ((first > 0 && joins(first - 1)) || (last + 1 < view.entries.size() && joins(last)))
    return false;

  Transaction transaction(store_, tag);
  KVD_TRY(layout::ListRoot root,
          transaction.AllocateList(static_cast<std::uint32_t>(view.entries.size())));
  layout::Extent* entries = store_.meta.list(root.first_unit);
  std::copy(view.entries.begin(), view.entries.end(), entries);
  for (std::size_t e = first; e <= last; ++e) entries[e].delta += delta;
  root.crc = Crc32c(0, std::as_bytes(store_.meta.entries(root)));
  layout::SequenceRecord record = *found.record;
  record.extents[0] = root;
  if (last + 1 == view.entries.size()) record.next_pos += delta;
  SetPristine(&record, std::min(record.pristine_cells, shifted.begin));
  record.logits_slot = layout::kNoSlot;
  NoteEdit(store_, transaction, ShiftOf(found, shifted, delta), &record);
  transaction.Put(found.index, record, Change::kShifted);
  transaction.Answer(MakeHandle(found.index, record.generation), 0);
  KVD_CHECK_OK(transaction.Commit());
  return true;
}

}  // namespace kvd
