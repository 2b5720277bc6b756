// Dividing positions, settling shifted cells and changing the form of keys are the edits that need
// other K bytes: the cells are re-rotated into fresh blocks, and the sequence's lists then refer to
// those. Each is a step of its own: reserve, compute without the lock, commit.
#include <algorithm>
#include <optional>
#include <string>

#include "engine/memory/record_functions.h"
#include "engine/memory/unified_memory.h"
#include "shm/check.h"

namespace kvd {

// One division, settling or change of form between its two locked parts. The new position of a cell
// is its old one divided by `divisor`.
struct UnifiedMemory::Rewriting {
  std::uint64_t content_number = 0;
  std::int32_t divisor = 1;
  std::optional<std::uint32_t> key_form;  // unset: as it was
  CellRange cells;
  AppliedRequest applied;
  struct Group {
    std::vector<Piece> sources;       // the cells as they are, as far as the group holds them
    std::vector<Piece> destinations;  // fresh blocks, delta 0
  };
  std::array<Group, layout::kGroupsMax> groups;
};

void UnifiedMemory::AppendRewritten(const Rewriting& rewriting, std::uint32_t group,
                                    std::vector<Piece>* pieces) {
  for (const Piece& piece : rewriting.groups[group].destinations) AppendPiece(pieces, piece);
}

Result<UnifiedMemory::Rewriting> UnifiedMemory::PlanDivision(SequenceHandle handle, PosRange range,
                                                             std::int32_t divisor) {
  Rewriting division;
  KVD_TRY(const Found found, FindMutable(handle));
  KVD_TRY(division.cells, FindCells(*found.record, range));
  if (divisor <= 0) {
    return Fail(Code::kInvalidArgument,
                "divisor: " + std::to_string(divisor) + ", must be above 0");
  }
  division.content_number = content_numbers_[found.index];
  division.divisor = divisor;
  const CellList cells = CellsOf(*found.record);
  const auto [begin, end] = division.cells;
  if (begin == end || divisor == 1) {
    division.cells.end = begin;
    return division;
  }
  // Positions only fall, so nothing behind the range is in the way.
  const std::int64_t first = cells.PositionAt(begin) / divisor;
  if (begin > 0 && cells.PositionAt(begin - 1) > first) {
    return Fail(Code::kInvalidArgument,
                "divisor: " + std::to_string(divisor) + " moves the first position to " +
                    std::to_string(first) + ", before " +
                    std::to_string(cells.PositionAt(begin - 1)) + " outside of the range");
  }
  KVD_CHECK_OK(CollectSources(found, &division));
  return division;
}

Result<UnifiedMemory::Rewriting> UnifiedMemory::PlanSettling(SequenceHandle handle,
                                                             SettleScope scope) {
  Rewriting settling;
  KVD_TRY(const Found found, FindMutable(handle));
  settling.content_number = content_numbers_[found.index];
  const ExtentView view = ViewOf(*found.record);
  bool any = false;
  for (std::size_t e = 0; e < view.entries.size(); ++e) {
    if (view.entries[e].delta == 0) continue;
    if (!any) settling.cells.begin = view.entries[e].start;
    settling.cells.end = view.EndOf(e);
    any = true;
  }
  if (any && scope == SettleScope::kAll) settling.cells = {0, view.cell_count};
  if (any) KVD_CHECK_OK(CollectSources(found, &settling));
  return settling;
}

Result<UnifiedMemory::Rewriting> UnifiedMemory::PlanReforming(SequenceHandle handle,
                                                              std::uint32_t key_form) {
  Rewriting reforming;
  if (key_form >= layout::kKeyFormsMax) {
    return Fail(Code::kInvalidArgument, "key form: " + std::to_string(key_form) + ", there are " +
                                            std::to_string(layout::kKeyFormsMax));
  }
  KVD_TRY(const Found found, FindMutable(handle));
  reforming.content_number = content_numbers_[found.index];
  reforming.key_form = key_form;
  const ExtentView view = ViewOf(*found.record);
  bool any = false;
  for (std::size_t e = 0; e < view.entries.size(); ++e) {
    const Piece piece = view.PieceAt(e);
    const layout::CellRecord* records = meta_.cells(0, piece.block) + piece.first;
    for (std::uint32_t i = 0; i < piece.count; ++i) {
      if (records[i].key_form == key_form) continue;
      if (!any) reforming.cells.begin = view.entries[e].start + i;
      reforming.cells.end = view.entries[e].start + i + 1;
      any = true;
    }
  }
  if (any) KVD_CHECK_OK(CollectSources(found, &reforming));
  return reforming;
}

// The cells to rewrite, if there are blocks for them.
Status UnifiedMemory::CollectSources(const Found& found, Rewriting* rewriting) {
  const layout::SequenceRecord& record = *found.record;
  const auto first_of = [&](std::uint32_t group) {
    return std::clamp(record.first_cell[group], rewriting->cells.begin, rewriting->cells.end);
  };
  Need need;
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    if (is_cross(group)) continue;
    const std::uint32_t cells = rewriting->cells.end - first_of(group);
    need.blocks[group] = (cells + layout::kBlockCells - 1) / layout::kBlockCells;
  }
  MakeRoom(need, {found.index, layout::kNoSlot});
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    if (is_cross(group)) continue;
    if (need.blocks[group] > allocators_[group].free_blocks()) {
      return Fail(Code::kNoSpace, NoBlocks(group, need.blocks[group]));
    }
    AppendCells(&rewriting->groups[group].sources, ViewOf(record, group), first_of(group),
                rewriting->cells.end);
  }
  return {};
}

Status UnifiedMemory::RotateCells(const Rewriting& division, std::uint32_t group,
                                  CellRotator& rotator) {
  const auto& [sources, destinations] = division.groups[group];
  const bool has_bytes = meta_.geometry().block_stride_bytes[group] != 0;
  for (const Piece& piece : destinations) {
    KVD_CHECK_OK(allocators_[group].EnsureReserved(piece.block));
  }
  auto destination = destinations.begin();
  std::uint32_t written = 0;  // cells of *destination
  for (const Piece& source : sources) {
    for (std::uint32_t cell = source.first; cell < source.first + std::uint32_t{source.count};
         ++cell) {
      if (written == destination->count) {
        ++destination;
        written = 0;
      }
      const layout::CellRecord& record = meta_.cells(group, source.block)[cell];
      const std::int64_t position = std::int64_t{record.stored_pos} + source.delta;
      const auto divided = static_cast<std::int32_t>(position / division.divisor);
      if (has_bytes) {
        KVD_CHECK_OK(rotator.RotateCell(
            group, static_cast<BlockId>(source.block), cell, Pos{record.stored_pos},
            static_cast<BlockId>(destination->block), written, Pos{divided}));
      }
      WriteCell(group, destination->block, written, record.token, divided,
                division.key_form.value_or(record.key_form));
      ++written;
    }
  }
  return {};
}

Status UnifiedMemory::CommitRewriting(SequenceHandle handle, const Rewriting& division) {
  const Result<Found> found = Find(handle);
  if (!found || content_numbers_[found->index] != division.content_number) {
    return Fail(Code::kConflict, HandleText(handle) + ": changed while its cells were rewritten");
  }
  const layout::SequenceRecord& old = *found->record;
  const auto [begin, end] = division.cells;
  const Segment segments[] = {
      {&old, 0, begin}, {&old, begin, end, 0, &division}, {&old, end, old.cell_count}};
  return ReplaceLists(found->index, segments, std::min(old.pristine_cells, begin),
                      {old.state_slot, layout::kNoSlot, old.checkpoints}, end - begin);
}

Result<std::uint32_t> UnifiedMemory::DividePositions(SequenceHandle handle, PosRange range,
                                                     std::int32_t divisor, CellRotator& rotator,
                                                     const AppliedRequest& applied) {
  const std::scoped_lock growth(growth_mutex_);
  std::unique_lock lock(mutex_);
  KVD_TRY(Rewriting division, PlanDivision(handle, range, divisor));
  division.applied = applied;
  return Rewrite(handle, std::move(division), rotator, std::move(lock));
}

Result<std::uint32_t> UnifiedMemory::Settle(SequenceHandle handle, SettleScope scope,
                                            CellRotator& rotator) {
  const std::scoped_lock growth(growth_mutex_);
  std::unique_lock lock(mutex_);
  KVD_TRY(Rewriting settling, PlanSettling(handle, scope));
  return Rewrite(handle, std::move(settling), rotator, std::move(lock));
}

Result<std::uint32_t> UnifiedMemory::ChangeKeyForm(SequenceHandle handle, std::uint32_t key_form,
                                                   CellRotator& rotator) {
  const std::scoped_lock growth(growth_mutex_);
  std::unique_lock lock(mutex_);
  KVD_TRY(Rewriting reforming, PlanReforming(handle, key_form));
  return Rewrite(handle, std::move(reforming), rotator, std::move(lock));
}

// REQUIRES: growth_mutex_ is held; `lock` holds mutex_.
Result<std::uint32_t> UnifiedMemory::Rewrite(SequenceHandle handle, Rewriting rewriting,
                                             CellRotator& rotator,
                                             std::unique_lock<std::mutex> lock) {
  KVD_ASSERT(!step_is_running_);
  const std::uint32_t cell_count = rewriting.cells.end - rewriting.cells.begin;
  if (cell_count == 0) {
    const Applying applying(this, rewriting.applied);
    KVD_CHECK_OK(CommitNothing(handle));
    return cell_count;
  }
  BeginRead();
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    auto& [sources, destinations] = rewriting.groups[group];
    for (std::uint32_t left = CountCells(sources); left > 0;) {
      const std::uint32_t count = std::min(left, layout::kBlockCells);
      destinations.push_back(
          {allocators_[group].ReserveFresh(count), 0, static_cast<std::uint16_t>(count), 0});
      left -= count;
    }
  }
  lock.unlock();

  Status status = {};
  for (std::uint32_t group = 0; group < group_count() && status; ++group) {
    if (!is_cross(group)) status = RotateCells(rewriting, group, rotator);
  }

  lock.lock();
  if (status) {
    const Applying applying(this, rewriting.applied);
    status = CommitRewriting(handle, rewriting);
  }
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    for (const Piece& piece : rewriting.groups[group].destinations) {
      allocators_[group].Release(piece.block, tables_.blocks[group]);
    }
  }
  EndRead();
  lock.unlock();
  if (segments_.pool.has_unused()) segments_.pool.PunchUnused();
  if (!status) return std::unexpected(std::move(status).error());
  return cell_count;
}

}  // namespace kvd
