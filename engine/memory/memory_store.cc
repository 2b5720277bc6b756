#include "engine/memory/memory_store.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "engine/memory/record_functions.h"

namespace kvd {

MemoryStore::MemoryStore(MemorySegments taken)
    : segments(std::move(taken)),
      meta(segments.meta.view()),
      tables(geometry()),
      states(geometry().state_slot_count, geometry().state_slot_bytes,
             &segments.pool.part(PoolParts::kStates)),
      logits(geometry().logits_row_count, geometry().logits_row_bytes,
             &segments.pool.part(PoolParts::kLogits)),
      log(meta),
      facts(geometry().sequence_capacity),
      prefix(geometry().sequence_capacity),
      slot_scores(geometry().state_slot_count),
      block_marks(geometry().block_count[0]),
      sequence_marks(geometry().sequence_capacity) {
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    allocators.emplace_back(geometry().block_count[group], geometry().block_stride_bytes[group],
                            &segments.pool.part(group));
  }
}

void MemoryStore::WriteCell(std::uint32_t group, std::uint32_t block, std::uint32_t cell,
                            TokenId token, std::int32_t stored_pos, std::uint32_t key_form) {
  meta.cells(group, block)[cell] = {
      token, stored_pos, CellCheck(token, stored_pos, group, block, cell, key_form), key_form};
}

void MemoryStore::ReturnUnusedSlabs() {
  if (!segments.pool.has_unused()) return;
  if (!growth_mutex.TryLock()) return;
  segments.pool.PunchUnused();
  growth_mutex.Unlock();
}

// -------------------------------------------------------------------------------------------- find

Result<FoundSequence> MemoryStore::Find(SequenceHandle handle) const {
  const std::uint32_t index = IndexOf(handle);
  if (index < geometry().sequence_capacity) {
    const layout::SequenceRecord& record = meta.sequences()[index];
    if ((record.flags & layout::kSequenceLive) != 0 && record.generation == GenerationOf(handle)) {
      return FoundSequence{index, &record};
    }
  }
  return Fail(Code::kNotFound, HandleText(handle), ": no such handle");
}

Status MemoryStore::CheckWhole(SequenceHandle handle, const layout::SequenceRecord& record) {
  if (record.given.entry_count == 0) return {};
  return Fail(Code::kBusy, HandleText(handle), ": ",
              record.given_from + record.given.entry_count - record.cell_count,
              " of its tokens have given their cells back and are computed again");
}

Result<FoundSequence> MemoryStore::FindWhole(SequenceHandle handle) const {
  KVD_TRY(const FoundSequence found, Find(handle));
  KVD_CHECK_OK(CheckWhole(handle, *found.record));
  return found;
}

Result<FoundSequence> MemoryStore::FindMutable(SequenceHandle handle) const {
  KVD_TRY(const FoundSequence found, FindUnpublished(handle));
  KVD_CHECK_OK(CheckWhole(handle, *found.record));
  return found;
}

Result<FoundSequence> MemoryStore::FindUnpublished(SequenceHandle handle) const {
  KVD_TRY(const FoundSequence found, Find(handle));
  if ((found.record->flags & layout::kSequencePublished) != 0) {
    return Fail(Code::kPermission, HandleText(handle),
                ": published, so it cannot be changed; fork it");
  }
  return found;
}

CellList MemoryStore::CellsOf(const layout::SequenceRecord& record) const {
  return {ViewOf(record), meta.cells(0, 0)};
}

Result<CellRange> MemoryStore::FindCells(const layout::SequenceRecord& record,
                                         PosRange range) const {
  if (range.begin.value < 0 || range.begin > range.end) {
    return Fail(Code::kInvalidArgument, "range: [", range.begin.value, ", ", range.end.value,
                "), must be 0 <= begin <= end");
  }
  const CellList cells = CellsOf(record);
  const std::uint32_t begin = cells.LowerBound(range.begin.value);
  if (range.end == kPosEnd) return CellRange{begin, record.cell_count};
  return CellRange{begin, std::max(begin, cells.LowerBound(range.end.value))};
}

std::int64_t MemoryStore::PositionIn(std::span<const BlockRange> ranges,
                                     std::uint32_t ordinal) const {
  auto range = ranges.begin();
  for (; ordinal >= range->count; ++range) ordinal -= range->count;
  return std::int64_t{meta.cells(0, range->block)[range->first + ordinal].stored_pos} +
         range->delta;
}

Status MemoryStore::CheckWindow(std::uint32_t group, std::int64_t last_dropped,
                                std::int64_t next_pos) const {
  const std::int64_t window = geometry().window[group];
  if (next_pos - last_dropped >= window) return {};
  return Fail(Code::kWindowLost, "position ", next_pos, " reaches back to ", next_pos - window + 1,
              ", but cells up to position ", last_dropped,
              " are dropped: they were out of the window of ", window);
}

std::string MemoryStore::NoBlocks(std::uint32_t group, std::uint64_t needed) const {
  return Concat((group == 0 ? "cells: " : Concat("cells of group ", group, ": ")), needed,
                " blocks needed, ", allocators[group].free_blocks(), " free, ",
                tables.blocks[group].reclaimable_blocks(), " reclaimable");
}

std::string MemoryStore::NoStates(std::uint64_t needed) const {
  return Concat("state slots: ", needed, " needed, ", states.free_slots(), " free of ",
                geometry().state_slot_count, ", ", tables.states.reclaimable_slots(),
                " reclaimable");
}

std::unexpected<Error> MemoryStore::NoListUnits(std::uint32_t units) const {
  return Fail(Code::kNoSpace, "lists: ", units, " units needed, ", tables.lists.largest_run(),
              " free in a row, ", tables.lists.free_units(), " in all");
}

bool MemoryStore::Mark(std::vector<std::uint64_t>* marks, std::uint32_t number) const {
  return std::exchange((*marks)[number], mark) != mark;
}

// ---------------------------------------------------------------------------------------- describe

std::uint32_t MemoryStore::CountSharedCells(ExtentView view) const {
  // A cell of a sequence is shared if the cell has a reference from outside the sequence. A
  // sequence may refer to a cell twice (after its cells were copied back at other positions), and
  // the second reference must not count. The exact count below is needed only for a sequence that
  // refers to a block twice.
  BeginMarks();
  std::uint32_t shared = 0;
  bool meets_twice = false;
  for (std::size_t index = 0; index < view.entries.size(); ++index) {
    meets_twice |= !Mark(&block_marks, view.entries[index].block);
    shared += tables.blocks[0].CountShared(view.RangeAt(index));
  }
  if (!meets_twice) return shared;

  std::vector<BlockRange> ranges;
  for (std::size_t index = 0; index < view.entries.size(); ++index)
    ranges.push_back(view.RangeAt(index));
  std::sort(ranges.begin(), ranges.end(),
            [](const BlockRange& a, const BlockRange& b) { return a.block < b.block; });
  shared = 0;
  for (auto begin = ranges.begin(); begin != ranges.end();) {
    const auto end = std::find_if(begin, ranges.end(),
                                  [&](const BlockRange& p) { return p.block != begin->block; });
    std::array<std::uint32_t, layout::kBlockCells> own = {};
    for (auto range = begin; range != end; ++range) {
      for (std::uint32_t k = 0; k < range->count; ++k) ++own[range->first + k];
    }
    for (std::uint32_t cell = 0; cell < layout::kBlockCells; ++cell) {
      if (own[cell] != 0 && tables.blocks[0].references(begin->block, cell) > own[cell])
        shared += own[cell];
    }
    begin = end;
  }
  return shared;
}

SequenceInfo MemoryStore::Describe(std::uint32_t index) const {
  const layout::SequenceRecord& record = meta.sequences()[index];
  const CellList cells = CellsOf(record);
  NoteLooks(1);
  SequenceInfo info;
  info.handle = MakeHandle(index, record.generation);
  info.owner = {.id = OwnerId{record.owner},
                .session = static_cast<SessionId>(record.owner_session),
                .namespace_salt = record.namespace_salt,
                .life = {.expires_unix_ms = record.expires_unix_ms,
                         .is_ephemeral = (record.flags & layout::kSequenceEphemeral) != 0}};
  info.flags = record.flags;
  // Only published sequences can be in the public space.
  info.is_public =
      prefix.index.contains(index) && prefix.index.space(index).kind == PrefixSpace::Kind::kPublic;
  info.cell_count = record.cell_count;
  info.pristine_cells = record.pristine_cells;
  info.extent_count = record.extents[0].entry_count;
  info.cross_cells = record.cross_cells;
  info.checkpoint_count = record.checkpoints.entry_count;
  info.first_pos = Pos{record.cell_count == 0 ? 0 : static_cast<std::int32_t>(cells.PositionAt(0))};
  info.next_pos = Pos{record.next_pos};
  info.created_unix_ms = record.created_unix_ms;
  info.edit_number = record.edit_number;
  info.request_session = static_cast<SessionId>(record.request_session);
  info.request = static_cast<RequestId>(record.request);
  if (record.given.entry_count != 0) {
    info.given_count = record.given_from + record.given.entry_count - record.cell_count;
  }
  if (record.request != 0 && record.request_first_cell <= record.cell_count + info.given_count) {
    info.request_first_cell = record.request_first_cell;
  }
  info.sampler = record.sampler;
  return info;
}

// ----------------------------------------------------------------------------------------- readers

void MemoryStore::BeginRead() {
  for (BlockAllocator& allocator : allocators) allocator.BeginRead();
}

void MemoryStore::EndRead() {
  for (BlockAllocator& allocator : allocators) allocator.EndRead();
}

void MemoryStore::SettleFreed() {
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    for (const std::uint32_t block : freed.blocks[group]) allocators[group].Unreferenced(block);
    freed.blocks[group].clear();
  }
  for (const std::uint32_t slot : freed.states) states.Unreferenced(slot);
  for (const std::uint32_t slot : freed.logits) logits.Unreferenced(slot);
  freed.states.clear();
  freed.logits.clear();
}

bool MemoryStore::AwaitBriefHolds(const Status& refused) {
  if (refused || refused.error().code != Code::kNoSpace) return false;
  const MutexLock lock(mutex);
  if (brief_holds == 0) return false;
  while (brief_holds != 0) brief_hold_ended.Wait(mutex);
  return true;
}

}  // namespace kvd
