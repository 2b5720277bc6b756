// What the verbs share, and the queries. Invariant between two calls: tables_ equals
// RebuildTables(meta), and a block is taken in allocator_ exactly if tables_ refers to it, a
// reservation holds it or it is in limbo.
#include "engine/memory/unified_memory.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>

#include "engine/memory/record_functions.h"
#include "shm/check.h"
#include "shm/crc32c.h"

namespace kvd {

Result<std::unique_ptr<UnifiedMemory>> UnifiedMemory::Create(MemorySegments segments) {
  if (segments.geometry.meta.group_count != 1) {
    return Fail(Code::kUnsupported,
                "block groups: " + std::to_string(segments.geometry.meta.group_count) +
                    ", this memory kind serves 1");
  }
  return std::unique_ptr<UnifiedMemory>(new UnifiedMemory(std::move(segments)));
}

UnifiedMemory::UnifiedMemory(MemorySegments segments)
    : segments_(std::move(segments)),
      meta_(segments_.meta.view()),
      tables_(meta_.geometry()),
      allocator_(meta_.geometry().block_count[0], 0, meta_.geometry().block_stride_bytes[0],
                 &segments_.pool),
      state_allocator_(meta_.geometry().state_slot_count, segments_.geometry.states_offset,
                       meta_.geometry().state_slot_bytes, &segments_.pool),
      logits_allocator_(meta_.geometry().logits_row_count, segments_.geometry.logits_offset,
                        meta_.geometry().logits_row_bytes, &segments_.pool),
      log_(meta_),
      content_numbers_(meta_.geometry().sequence_capacity),
      holders_(meta_.geometry().sequence_capacity, Holder::kHeld),
      block_marks_(meta_.geometry().block_count[0]),
      sequence_marks_(meta_.geometry().sequence_capacity),
      checkpoint_slots_max_(segments_.geometry.checkpoint_slots) {}

UnifiedMemory::~UnifiedMemory() = default;

std::byte* UnifiedMemory::BlockBytes(BlockId block) {
  const auto number = static_cast<std::uint32_t>(block);
  KVD_ASSERT(number < meta_.geometry().block_count[0]);
  return segments_.pool.data() + number * meta_.geometry().block_stride_bytes[0];
}

const layout::CellRecord* UnifiedMemory::BlockCells(BlockId block) const {
  const auto number = static_cast<std::uint32_t>(block);
  KVD_ASSERT(number < meta_.geometry().block_count[0]);
  return meta_.cells(number);
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

ExtentView UnifiedMemory::ViewOf(const layout::SequenceRecord& record) const {
  return {meta_.entries(record.extents[0]), record.cell_count};
}

CellList UnifiedMemory::CellsOf(const layout::SequenceRecord& record) const {
  return {ViewOf(record), meta_.cells()};
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

std::int64_t UnifiedMemory::NextPosition(std::span<const Piece> pieces) const {
  if (pieces.empty()) return 0;
  const Piece& last = pieces.back();
  return std::int64_t{meta_.cells(last.block)[last.first + last.count - 1].stored_pos} +
         last.delta + 1;
}

std::string UnifiedMemory::NoBlocks(std::uint64_t needed, std::uint64_t free) const {
  return "cells: " + std::to_string(needed) + " blocks needed, " + std::to_string(free) +
         " free, " + std::to_string(tables_.blocks.reclaimable_blocks()) + " reclaimable";
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

// ------------------------------------------------------------------------------------------- lists

Result<layout::ListRoot> UnifiedMemory::AllocateList(std::uint32_t entry_count) {
  if (entry_count == 0) return kEmptyList;
  const std::uint32_t units = ListUnitsFor(entry_count);
  const std::optional<std::uint32_t> first = tables_.lists.Allocate(units);
  if (!first) return NoListUnits(units);
  return layout::ListRoot{*first, units, entry_count, 0};
}

Result<layout::ListRoot> UnifiedMemory::WriteList(std::span<const Piece> pieces) {
  KVD_TRY(layout::ListRoot root, AllocateList(static_cast<std::uint32_t>(pieces.size())));
  if (root.entry_count == 0) return root;
  StoreExtents(pieces, meta_.list(root.first_unit));
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

void UnifiedMemory::FreeList(const layout::ListRoot& root) {
  if (root.capacity_units != 0) tables_.lists.Free(root.first_unit, root.capacity_units);
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

Status UnifiedMemory::ReplaceList(std::uint32_t index, ListChange change) {
  const layout::SequenceRecord old = meta_.sequences()[index];
  layout::SequenceRecord record = old;
  const layout::SequenceRecord& state_source =
      change.state_source != nullptr ? *change.state_source : old;
  Status planned =
      PlanState(state_source, change.unchanged_cells, CountCells(new_pieces_), &record);
  if (!planned && !change.state_slot) return planned;
  if (change.state_slot) record.state_slot = *change.state_slot;
  if (change.state_source != nullptr && has_state()) {
    if (record.state_slot == layout::kNoSlot) record.state_slot = state_source.state_slot;
    CollectCheckpoints(state_source, change.unchanged_cells, record.state_slot);
    KVD_TRY(record.checkpoints, WriteCheckpoints(checkpoints_));
  }
  const bool has_own_checkpoints = record.checkpoints.first_unit != old.checkpoints.first_unit;
  Result<layout::ListRoot> list = WriteList(new_pieces_);
  if (!list) {
    if (has_own_checkpoints) FreeList(record.checkpoints);
    return std::unexpected(std::move(list).error());
  }
  const layout::ListRoot root = *list;
  record.extents[0] = root;
  record.cell_count = CountCells(new_pieces_);
  record.next_pos = static_cast<std::int32_t>(NextPosition(new_pieces_));
  SetPristine(&record, change.pristine_cells);
  ++record.edit_number;

  log_.Begin();
  PutRecord(index, record);
  if (Status status = log_.Commit(); !status) {
    FreeList(root);
    if (has_own_checkpoints) FreeList(record.checkpoints);
    return status;
  }
  ++content_numbers_[index];
  RecountPieces(holders_[index]);
  FreeList(old.extents[0]);
  RecountState(old, record, holders_[index]);
  return {};
}

void UnifiedMemory::RecountPieces(Holder holder) {
  const auto same = [](const Piece& a, const Piece& b) {
    return a.block == b.block && a.first == b.first && a.count == b.count;
  };
  // Most edits leave both ends of the list as they were.
  std::size_t begin = 0;
  std::size_t old_end = old_pieces_.size();
  std::size_t new_end = new_pieces_.size();
  while (begin < old_end && begin < new_end && same(old_pieces_[begin], new_pieces_[begin]))
    ++begin;
  while (begin < old_end && begin < new_end &&
         same(old_pieces_[old_end - 1], new_pieces_[new_end - 1])) {
    --old_end;
    --new_end;
  }
  // Added first: a block that stays is never without a reference.
  for (std::size_t at = begin; at < new_end; ++at) tables_.blocks.Add(new_pieces_[at], holder);
  for (std::size_t at = begin; at < old_end; ++at) {
    tables_.blocks.Drop(old_pieces_[at], holder, &freed_blocks_);
  }
  SettleFreedBlocks();
}

void UnifiedMemory::SettleFreedBlocks() {
  for (const std::uint32_t block : freed_blocks_) allocator_.Unreferenced(block);
  freed_blocks_.clear();
}

void UnifiedMemory::ReturnUnusedSlabs() {
  if (!segments_.pool.has_unused()) return;
  const std::unique_lock growth(growth_mutex_, std::try_to_lock);
  if (growth.owns_lock()) segments_.pool.PunchUnused();
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
    shared += tables_.blocks.CountShared(view.PieceAt(index));
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
      if (own[cell] != 0 && tables_.blocks.references(begin->block, cell) > own[cell])
        shared += own[cell];
    }
    begin = end;
  }
  return shared;
}

SequenceInfo UnifiedMemory::Describe(std::uint32_t index,
                                     const layout::SequenceRecord& record) const {
  const CellList cells = CellsOf(record);
  SequenceInfo info;
  info.handle = MakeHandle(index, record.generation);
  info.owner = {record.owner_uid, static_cast<SessionId>(record.owner_session),
                record.namespace_salt};
  info.flags = record.flags;
  info.cell_count = record.cell_count;
  info.pristine_cells = record.pristine_cells;
  info.extent_count = record.extents[0].entry_count;
  info.first_pos = Pos{record.cell_count == 0 ? 0 : static_cast<std::int32_t>(cells.PositionAt(0))};
  info.next_pos = Pos{record.next_pos};
  info.created_unix_ms = record.created_unix_ms;
  info.edit_number = record.edit_number;
  return info;
}

Result<SequenceInfo> UnifiedMemory::Query(SequenceHandle handle) const {
  const std::scoped_lock lock(mutex_);
  KVD_TRY(const Found found, Find(handle));
  return Describe(found.index, *found.record);
}

Result<SequenceUse> UnifiedMemory::QueryUse(SequenceHandle handle) const {
  const std::scoped_lock lock(mutex_);
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

std::vector<SequenceInfo> UnifiedMemory::Sequences() const {
  const std::scoped_lock lock(mutex_);
  std::vector<SequenceInfo> infos;
  for (std::uint32_t index = 0; index < meta_.geometry().sequence_capacity; ++index) {
    const layout::SequenceRecord& record = meta_.sequences()[index];
    if ((record.flags & layout::kSequenceLive) != 0) infos.push_back(Describe(index, record));
  }
  return infos;
}

PoolUsage UnifiedMemory::Usage() const {
  const std::scoped_lock lock(mutex_);
  PoolUsage usage;
  usage.total_blocks = meta_.geometry().block_count[0];
  usage.free_blocks = allocator_.free_blocks();
  usage.reclaimable_blocks = tables_.blocks.reclaimable_blocks();
  usage.sequence_capacity = meta_.geometry().sequence_capacity;
  usage.live_sequences = usage.sequence_capacity - tables_.sequences.free_count();
  usage.live_cells = tables_.blocks.live_cells();
  usage.reserved_bytes = segments_.pool.reserved_bytes();
  usage.list_units_free = tables_.lists.free_units();
  usage.state_slots = meta_.geometry().state_slot_count;
  usage.free_state_slots = state_allocator_.free_blocks();
  usage.checkpoint_slots = tables_.checkpoints.used_blocks();
  usage.logits_rows = meta_.geometry().logits_row_count;
  usage.free_logits_rows = logits_allocator_.free_blocks();
  return usage;
}

Status UnifiedMemory::ReadCells(SequenceHandle handle, std::uint32_t first_cell,
                                std::uint32_t count, std::vector<TokenId>* tokens,
                                std::vector<Pos>* positions) const {
  const std::scoped_lock lock(mutex_);
  KVD_TRY(const Found found, Find(handle));
  const ExtentView view = ViewOf(*found.record);
  tokens->clear();
  positions->clear();
  if (first_cell >= view.cell_count) return {};
  const std::uint32_t end = first_cell + std::min(count, view.cell_count - first_cell);
  if (first_cell == end) return {};
  for (std::size_t index = FindExtent(view, first_cell);
       index < view.entries.size() && view.entries[index].start < end; ++index) {
    const layout::Extent& extent = view.entries[index];
    const layout::CellRecord* const cells = meta_.cells(extent.block) + extent.first;
    for (std::uint32_t at = std::max(first_cell, extent.start);
         at < std::min(end, view.EndOf(index)); ++at) {
      const layout::CellRecord& cell = cells[at - extent.start];
      tokens->push_back(cell.token);
      positions->push_back(
          Pos{static_cast<std::int32_t>(std::int64_t{cell.stored_pos} + extent.delta)});
    }
  }
  return {};
}

}  // namespace kvd
