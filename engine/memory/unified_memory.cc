// What the verbs share, and the queries. Invariant between two calls: tables_ equals
// RebuildTables(meta), and a block is taken in allocator_ exactly if tables_ refers to it, a
// reservation holds it or it is in limbo.
#include "engine/memory/unified_memory.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>

#include "engine/memory/hold_and_restore.h"
#include "engine/memory/record_functions.h"
#include "shm/check.h"

namespace kvd {

Result<std::unique_ptr<UnifiedMemory>> UnifiedMemory::Create(MemorySegments segments) {
  return std::unique_ptr<UnifiedMemory>(new UnifiedMemory(std::move(segments)));
}

UnifiedMemory::UnifiedMemory(MemorySegments segments)
    : segments_(std::move(segments)),
      meta_(segments_.meta.view()),
      tables_(meta_.geometry()),
      states_(meta_.geometry().state_slot_count, segments_.geometry.pool.states,
              meta_.geometry().state_slot_bytes, &segments_.pool),
      logits_(meta_.geometry().logits_row_count, segments_.geometry.pool.logits,
              meta_.geometry().logits_row_bytes, &segments_.pool),
      log_(meta_),
      content_numbers_(meta_.geometry().sequence_capacity),
      computed_numbers_(meta_.geometry().sequence_capacity),
      known_forms_(meta_.geometry().sequence_capacity),
      holders_(meta_.geometry().sequence_capacity, Holder::kHeld),
      slot_scores_(meta_.geometry().state_slot_count),
      block_marks_(meta_.geometry().block_count[0]),
      sequence_marks_(meta_.geometry().sequence_capacity),
      prefixes_(meta_.geometry().sequence_capacity),
      retained_(meta_.geometry().sequence_capacity),
      last_uses_(meta_.geometry().sequence_capacity) {
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    allocators_.emplace_back(meta_.geometry().block_count[group],
                             segments_.geometry.pool.blocks[group],
                             meta_.geometry().block_stride_bytes[group], &segments_.pool);
  }
}

UnifiedMemory::~UnifiedMemory() = default;

std::byte* UnifiedMemory::BlockBytes(std::uint32_t group, BlockId block) {
  const auto number = static_cast<std::uint32_t>(block);
  KVD_ASSERT(group < group_count() && number < meta_.geometry().block_count[group]);
  return block_places(group).bytes(number);
}

Status UnifiedMemory::GrowBlock(std::uint32_t group, BlockId block) {
  const MutexLock growth(growth_mutex_);
  return EnsureBlock(group, static_cast<std::uint32_t>(block));
}

const layout::CellRecord* UnifiedMemory::BlockCells(std::uint32_t group, BlockId block) const {
  const auto number = static_cast<std::uint32_t>(block);
  KVD_ASSERT(group < group_count() && number < meta_.geometry().block_count[group]);
  return meta_.cells(group, number);
}

// -------------------------------------------------------------------------------------------- find

Result<UnifiedMemory::Found> UnifiedMemory::Find(SequenceHandle handle) const {
  const std::uint32_t index = IndexOf(handle);
  if (index < meta_.geometry().sequence_capacity) {
    const layout::SequenceRecord& record = meta_.sequences()[index];
    if ((record.flags & layout::kSequenceLive) != 0 && record.generation == GenerationOf(handle)) {
      return Found{index, &record};
    }
  }
  return Fail(Code::kNotFound, HandleText(handle) + ": no such handle");
}

Result<UnifiedMemory::Found> UnifiedMemory::FindMutable(SequenceHandle handle) const {
  KVD_TRY(const Found found, Find(handle));
  if ((found.record->flags & layout::kSequencePublished) != 0) {
    return Fail(Code::kPermission,
                HandleText(handle) + ": published, so it cannot be changed; fork it");
  }
  return found;
}

ExtentView UnifiedMemory::ViewOf(const layout::SequenceRecord& record, std::uint32_t group) const {
  return {meta_.entries(record.extents[group]), CellCountOf(record, meta_.geometry(), group)};
}

CellList UnifiedMemory::CellsOf(const layout::SequenceRecord& record) const {
  return {ViewOf(record), meta_.cells(0, 0)};
}

Result<UnifiedMemory::CellRange> UnifiedMemory::FindCells(const layout::SequenceRecord& record,
                                                          PosRange range) const {
  if (range.begin.value < 0 || range.begin > range.end) {
    return Fail(Code::kInvalidArgument, "range: [" + std::to_string(range.begin.value) + ", " +
                                            std::to_string(range.end.value) +
                                            "), must be 0 <= begin <= end");
  }
  const CellList cells = CellsOf(record);
  const std::uint32_t begin = cells.LowerBound(range.begin.value);
  if (range.end == kPosEnd) return CellRange{begin, record.cell_count};
  return CellRange{begin, std::max(begin, cells.LowerBound(range.end.value))};
}

std::int64_t UnifiedMemory::PositionIn(std::span<const Piece> pieces, std::uint32_t ordinal) const {
  auto piece = pieces.begin();
  for (; ordinal >= piece->count; ++piece) ordinal -= piece->count;
  return std::int64_t{meta_.cells(0, piece->block)[piece->first + ordinal].stored_pos} +
         piece->delta;
}

Status UnifiedMemory::CheckWindow(std::uint32_t group, std::int64_t last_dropped,
                                  std::int64_t next_pos) const {
  const std::int64_t window = meta_.geometry().window[group];
  if (next_pos - last_dropped >= window) return {};
  return Fail(Code::kWindowLost, "position " + std::to_string(next_pos) + " reaches back to " +
                                     std::to_string(next_pos - window + 1) +
                                     ", but cells up to position " + std::to_string(last_dropped) +
                                     " are dropped: they were out of the window of " +
                                     std::to_string(window));
}

std::string UnifiedMemory::NoBlocks(std::uint32_t group, std::uint64_t needed) const {
  return (group == 0 ? "cells: " : "cells of group " + std::to_string(group) + ": ") +
         std::to_string(needed) + " blocks needed, " +
         std::to_string(allocators_[group].free_blocks()) + " free, " +
         std::to_string(tables_.blocks[group].reclaimable_blocks()) + " reclaimable";
}

std::unexpected<Error> UnifiedMemory::NoListUnits(std::uint32_t units) const {
  return Fail(Code::kNoSpace, "lists: " + std::to_string(units) + " units needed, " +
                                  std::to_string(tables_.lists.largest_run()) + " free in a row, " +
                                  std::to_string(tables_.lists.free_units()) + " in all");
}

void UnifiedMemory::BeginMarks() const { ++mark_; }

bool UnifiedMemory::Mark(std::vector<std::uint64_t>* marks, std::uint32_t number) const {
  return std::exchange((*marks)[number], mark_) != mark_;
}

// ----------------------------------------------------------------------------------------- queries

std::uint32_t UnifiedMemory::CountSharedCells(ExtentView view) const {
  // A reference beside the sequence's own makes a cell shared, so two of its own must not count: a
  // sequence may hold a cell twice (copied back at other positions). Only then does it meet a block
  // twice, and the exact count is taken.
  BeginMarks();
  std::uint32_t shared = 0;
  bool meets_twice = false;
  for (std::size_t index = 0; index < view.entries.size(); ++index) {
    meets_twice |= !Mark(&block_marks_, view.entries[index].block);
    shared += tables_.blocks[0].CountShared(view.PieceAt(index));
  }
  if (!meets_twice) return shared;

  std::vector<Piece> pieces;
  for (std::size_t index = 0; index < view.entries.size(); ++index)
    pieces.push_back(view.PieceAt(index));
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.block < b.block; });
  shared = 0;
  for (auto begin = pieces.begin(); begin != pieces.end();) {
    const auto end =
        std::find_if(begin, pieces.end(), [&](const Piece& p) { return p.block != begin->block; });
    std::array<std::uint32_t, layout::kBlockCells> own = {};
    for (auto piece = begin; piece != end; ++piece) {
      for (std::uint32_t k = 0; k < piece->count; ++k) ++own[piece->first + k];
    }
    for (std::uint32_t cell = 0; cell < layout::kBlockCells; ++cell) {
      if (own[cell] != 0 && tables_.blocks[0].references(begin->block, cell) > own[cell])
        shared += own[cell];
    }
    begin = end;
  }
  return shared;
}

SequenceInfo UnifiedMemory::Describe(std::uint32_t index,
                                     const layout::SequenceRecord& record) const {
  const CellList cells = CellsOf(record);
  NoteLooks(1);
  SequenceInfo info;
  info.handle = MakeHandle(index, record.generation);
  info.owner = {record.owner_uid, static_cast<SessionId>(record.owner_session),
                record.namespace_salt};
  info.flags = record.flags;
  // Only published sequences are in that space.
  info.is_public =
      prefixes_.contains(index) && prefixes_.space(index).kind == PrefixSpace::Kind::kPublic;
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
  if (record.request != 0 && record.request_first_cell <= record.cell_count) {
    info.request_first_cell = record.request_first_cell;
  }
  info.sampler = record.sampler;
  return info;
}

Result<SequenceInfo> UnifiedMemory::Query(SequenceHandle handle) const {
  const MutexLock lock(mutex_);
  KVD_TRY(const Found found, Find(handle));
  return Describe(found.index, *found.record);
}

Result<SequenceUse> UnifiedMemory::QueryUse(SequenceHandle handle) const {
  const MutexLock lock(mutex_);
  KVD_TRY(const Found found, Find(handle));
  const ExtentView view = ViewOf(*found.record);
  std::int64_t delta_max = 0;
  for (const layout::Extent& extent : view.entries) {
    delta_max = std::max(delta_max, std::abs(std::int64_t{extent.delta}));
  }
  return SequenceUse{.shared_cells = CountSharedCells(view),
                     .delta_count = CountDeltas(view),
                     .delta_max = delta_max};
}

template <class Next>
std::vector<SequenceInfo> UnifiedMemory::ListInPortions(Next next) const {
  std::vector<SequenceInfo> infos;
  std::array<std::uint32_t, kListedAtOnce> indices;
  std::vector<SequenceInfo> portion;  // so that a long list does not grow under the mutex
  portion.reserve(kListedAtOnce);
  std::size_t count = kListedAtOnce;
  while (count == kListedAtOnce) {
    portion.clear();
    {
      const MutexLock lock(mutex_);
      count = next(std::span(indices));
      for (std::size_t at = 0; at < count; ++at) {
        portion.push_back(Describe(indices[at], meta_.sequences()[indices[at]]));
      }
      looks_.records_at_once = std::max<std::uint64_t>(looks_.records_at_once, count);
    }
    infos.insert(infos.end(), portion.begin(), portion.end());
  }
  std::ranges::sort(infos, {}, [](const SequenceInfo& info) { return IndexOf(info.handle); });
  return infos;
}

std::vector<SequenceInfo> UnifiedMemory::Sequences() const {
  std::uint32_t index = 0;
  return ListInPortions([&](std::span<std::uint32_t> indices) {
    mutex_.AssertHeld();
    std::size_t count = 0;
    for (; index < tables_.sequences.capacity() && count < indices.size(); ++index) {
      if (!tables_.sequences.is_free(index)) indices[count++] = index;
    }
    return count;
  });
}

std::vector<SequenceInfo> UnifiedMemory::SequencesOf(SessionId session) const {
  OwnerTable::Cursor cursor;
  return ListInPortions([&](std::span<std::uint32_t> indices) {
    mutex_.AssertHeld();
    return tables_.owners.ListSession(static_cast<std::uint64_t>(session), &cursor, indices);
  });
}

std::vector<SequenceInfo> UnifiedMemory::RetainedOf(std::uint32_t uid) const {
  OwnerTable::Cursor cursor;
  return ListInPortions([&](std::span<std::uint32_t> indices) {
    mutex_.AssertHeld();
    return tables_.owners.ListRetained(uid, &cursor, indices);
  });
}

OwnerUse UnifiedMemory::UseOf(std::uint32_t uid) const {
  const MutexLock lock(mutex_);
  return tables_.owners.UseOf(uid);
}

PoolUsage UnifiedMemory::Usage() const {
  const MutexLock lock(mutex_);
  const layout::MetaGeometry& geometry = meta_.geometry();
  PoolUsage usage;
  usage.group_count = geometry.group_count;
  for (std::uint32_t group = 0; group < geometry.group_count; ++group) {
    usage.groups[group] = {.total_blocks = geometry.block_count[group],
                           .free_blocks = allocators_[group].free_blocks(),
                           .reclaimable_blocks = tables_.blocks[group].reclaimable_blocks(),
                           .live_cells = tables_.blocks[group].live_cells()};
  }
  usage.total_blocks = usage.groups[0].total_blocks;
  usage.free_blocks = usage.groups[0].free_blocks;
  usage.reclaimable_blocks = usage.groups[0].reclaimable_blocks;
  usage.live_cells = usage.groups[0].live_cells;
  usage.sequence_capacity = geometry.sequence_capacity;
  usage.live_sequences = usage.sequence_capacity - tables_.sequences.free_count();
  usage.retained_sequences = static_cast<std::uint32_t>(retained_.size());
  usage.reserved_bytes = segments_.pool.reserved_bytes();
  usage.list_units_free = tables_.lists.free_units();
  usage.state_slots = geometry.state_slot_count;
  usage.free_state_slots = states_.free_slots();
  usage.reclaimable_state_slots = tables_.states.reclaimable_slots();
  usage.checkpoint_slots = tables_.states.checkpoint_slots();
  usage.logits_rows = geometry.logits_row_count;
  usage.free_logits_rows = logits_.free_slots();
  return usage;
}

namespace {

// Tokens and effective positions of the cells [begin, end) of a list; `records` are those of group 0.
void AppendCellRecords(const ExtentView& view, std::uint32_t begin, std::uint32_t end,
                       const MetaView& meta, std::vector<TokenId>* tokens,
                       std::vector<Pos>* positions) {
  for (std::size_t index = FindExtent(view, begin);
       index < view.entries.size() && view.entries[index].start < end; ++index) {
    const layout::Extent& extent = view.entries[index];
    const layout::CellRecord* const cells = meta.cells(0, extent.block) + extent.first;
    for (std::uint32_t at = std::max(begin, extent.start); at < std::min(end, view.EndOf(index));
         ++at) {
      const layout::CellRecord& cell = cells[at - extent.start];
      tokens->push_back(cell.token);
      positions->push_back(
          Pos{static_cast<std::int32_t>(std::int64_t{cell.stored_pos} + extent.delta)});
    }
  }
}

}  // namespace

// Many cells are read from a hold, without the lock.
Status UnifiedMemory::ReadCells(SequenceHandle handle, std::uint32_t first_cell,
                                std::uint32_t count, std::vector<TokenId>* tokens,
                                std::vector<Pos>* positions) {
  tokens->clear();
  positions->clear();
  // Not under the lock. A sequence that has more cells than the pool refers to some of them twice.
  const std::size_t cells_max = std::size_t{meta_.geometry().block_count[0]} * layout::kBlockCells;
  tokens->reserve(std::min<std::size_t>(count, cells_max));
  positions->reserve(std::min<std::size_t>(count, cells_max));
  const auto end_of = [&](const ExtentView& view) {
    const std::uint32_t first = std::min(first_cell, view.cell_count);
    return first + std::min(count, view.cell_count - first);
  };
  {
    const MutexLock lock(mutex_);
    KVD_TRY(const Found found, Find(handle));
    const ExtentView view = ViewOf(*found.record);
    const std::uint32_t end = end_of(view);
    if (end <= first_cell) return {};
    if (end - first_cell <= kCellsReadAtOnce) {
      AppendCellRecords(view, first_cell, end, meta_, tokens, positions);
      looks_.cells_at_once = std::max<std::uint64_t>(looks_.cells_at_once, end - first_cell);
      return {};
    }
  }
  SequenceHold hold;
  hold.is_brief = true;
  KVD_CHECK_OK(Hold(handle, &hold));
  const ExtentView view = {hold.parts[0].extents, hold.parts[0].cell_count};
  const std::uint32_t end = end_of(view);  // it may have become shorter
  if (first_cell < end) AppendCellRecords(view, first_cell, end, meta_, tokens, positions);
  ReleaseHold(hold);
  return {};
}

}  // namespace kvd
