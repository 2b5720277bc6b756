// Dividing positions, settling shifted cells and changing the form of keys are the edits that need
// other K bytes: the cells are re-rotated into fresh blocks, and the sequence's lists then refer to
// those.
//
// A rewrite reserves all of its blocks first and is then done in slices. Each slice is a step of its
// own: look up the sources, rotate without the lock; the last one commits. Between two slices nothing
// of the sequence is held: an edit of it makes the next slice a conflict, and cells that a
// defragmentation moves are looked up where they are then. Rotated cells lie in blocks that are
// reserved and that nothing committed refers to.
#include <algorithm>
#include <optional>
#include <string>

#include "engine/memory/cell_rewrite.h"
#include "engine/memory/record_functions.h"
#include "engine/memory/unified_memory.h"
#include "shm/check.h"

namespace kvd {

void UnifiedMemory::AppendRewritten(const CellRewrite& rewrite, std::uint32_t group,
                                    std::vector<Piece>* pieces) {
  for (const Piece& piece : rewrite.groups[group].destinations) AppendPiece(pieces, piece);
}

Status UnifiedMemory::PlanDivision(const Found& found, PosRange range,
                                   CellRewrite* division) const {
  KVD_TRY(const CellRange range_cells, FindCells(*found.record, range));
  const std::int32_t divisor = division->divisor;
  if (divisor <= 0) {
    return Fail(Code::kInvalidArgument,
                "divisor: " + std::to_string(divisor) + ", must be above 0");
  }
  const CellList cells = CellsOf(*found.record);
  const auto [begin, end] = range_cells;
  if (begin == end || divisor == 1) return {};
  // Positions only fall, so nothing behind the range is in the way.
  const std::int64_t first = cells.PositionAt(begin) / divisor;
  if (begin > 0 && cells.PositionAt(begin - 1) > first) {
    return Fail(Code::kInvalidArgument,
                "divisor: " + std::to_string(divisor) + " moves the first position to " +
                    std::to_string(first) + ", before " +
                    std::to_string(cells.PositionAt(begin - 1)) + " outside of the range");
  }
  division->begin_cell = begin;
  division->end_cell = end;
  return {};
}

Status UnifiedMemory::PlanSettling(const Found& found, SettleScope scope,
                                   CellRewrite* settling) const {
  const ExtentView view = ViewOf(*found.record);
  bool any = false;
  for (std::size_t e = 0; e < view.entries.size(); ++e) {
    if (view.entries[e].delta == 0) continue;
    if (!any) settling->begin_cell = view.entries[e].start;
    settling->end_cell = view.EndOf(e);
    any = true;
  }
  if (any && scope == SettleScope::kAll) {
    settling->begin_cell = 0;
    settling->end_cell = view.cell_count;
  }
  return {};
}

Status UnifiedMemory::PlanReforming(const Found& found, CellRewrite* reforming) {
  const std::uint32_t key_form = *reforming->key_form;
  if (key_form >= layout::kKeyFormsMax) {
    return Fail(Code::kInvalidArgument, "key form: " + std::to_string(key_form) + ", there are " +
                                            std::to_string(layout::kKeyFormsMax));
  }
  const KnownForm all_have_it{content_numbers_[found.index], key_form};
  if (known_forms_[found.index] == all_have_it) return {};
  const ExtentView view = ViewOf(*found.record);
  looks_.cells_at_once = std::max<std::uint64_t>(looks_.cells_at_once, view.cell_count);
  bool any = false;
  for (std::size_t e = 0; e < view.entries.size(); ++e) {
    const Piece piece = view.PieceAt(e);
    const layout::CellRecord* records = meta_.cells(0, piece.block) + piece.first;
    for (std::uint32_t i = 0; i < piece.count; ++i) {
      if (records[i].key_form == key_form) continue;
      if (!any) reforming->begin_cell = view.entries[e].start + i;
      reforming->end_cell = view.entries[e].start + i + 1;
      any = true;
    }
  }
  if (!any) known_forms_[found.index] = all_have_it;
  return {};
}

Status UnifiedMemory::PlanRewrite(const Found& found, const RewriteRequest& request,
                                  CellRewrite* rewrite) {
  switch (request.kind) {
    case RewriteRequest::Kind::kDivide:
      rewrite->divisor = request.divisor;
      return PlanDivision(found, request.range, rewrite);
    case RewriteRequest::Kind::kSettle: return PlanSettling(found, request.scope, rewrite);
    case RewriteRequest::Kind::kChangeForm:
      rewrite->key_form = request.key_form;
      return PlanReforming(found, rewrite);
  }
  return {};
}

Status UnifiedMemory::ReserveRewritten(const Found& found, bool may_evict, CellRewrite* rewrite) {
  const layout::SequenceRecord& record = *found.record;
  Need need;
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    if (is_cross(group)) continue;
    const std::uint32_t first =
        std::clamp(record.first_cell[group], rewrite->begin_cell, rewrite->end_cell);
    rewrite->groups[group].first_cell = first;
    rewrite->cells_left += rewrite->end_cell - first;
    need.blocks[group] =
        (rewrite->end_cell - first + layout::kBlockCells - 1) / layout::kBlockCells;
  }
  if (may_evict) MakeRoom(need, {found.index, layout::kNoSlot});
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    if (need.blocks[group] > allocators_[group].free_blocks()) {
      return Fail(Code::kNoSpace, NoBlocks(group, need.blocks[group]));
    }
  }
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    if (is_cross(group)) continue;
    CellRewrite::Group& part = rewrite->groups[group];
    for (std::uint32_t left = rewrite->end_cell - part.first_cell; left > 0;) {
      const std::uint32_t count = std::min(left, layout::kBlockCells);
      part.destinations.push_back(
          {allocators_[group].ReserveFresh(count), 0, static_cast<std::uint16_t>(count), 0});
      left -= count;
    }
  }
  rewrite->is_open = true;
  return {};
}

Status UnifiedMemory::BeginRewrite(const RewriteRequest& request, CellRewrite* rewrite) {
  KVD_ASSERT(!rewrite->is_open);
  *rewrite = {};
  const MutexLock growth(growth_mutex_);
  const MutexLock lock(mutex_);
  KVD_ASSERT(!step_is_running_);
  KVD_TRY(const Found found, FindMutable(request.handle));
  rewrite->handle = request.handle;
  rewrite->content_number = content_numbers_[found.index];
  rewrite->applied = request.applied;
  KVD_CHECK_OK(PlanRewrite(found, request, rewrite));
  if (rewrite->cell_count() > 0) return ReserveRewritten(found, request.may_evict, rewrite);
  const Applying applying(this, rewrite->applied);
  return CommitNothing(request.handle);
}

Result<std::uint32_t> UnifiedMemory::CountRewritten(const RewriteRequest& request) {
  const MutexLock lock(mutex_);
  KVD_TRY(const Found found, FindMutable(request.handle));
  CellRewrite rewrite;
  KVD_CHECK_OK(PlanRewrite(found, request, &rewrite));
  return rewrite.cell_count();
}

Result<UnifiedMemory::Found> UnifiedMemory::FindRewritten(const CellRewrite& rewrite) const {
  Result<Found> found = Find(rewrite.handle);
  if (found && content_numbers_[found->index] == rewrite.content_number) return found;
  return Fail(Code::kConflict,
              HandleText(rewrite.handle) + ": changed while its cells were rewritten");
}

// Rotates the next cells of a group, those that `sources` refers to.
Status UnifiedMemory::RotateCells(CellRewrite& rewrite, std::uint32_t group,
                                  std::span<const Piece> sources, CellRotator& rotator) {
  CellRewrite::Group& part = rewrite.groups[group];
  const bool has_bytes = meta_.geometry().block_stride_bytes[group] != 0;
  for (const Piece& source : sources) {
    for (std::uint32_t cell = source.first; cell < source.first + std::uint32_t{source.count};
         ++cell) {
      // All destinations but the last are whole blocks.
      const std::uint32_t to_block = part.destinations[part.done / layout::kBlockCells].block;
      const std::uint32_t to_cell = part.done % layout::kBlockCells;
      if (to_cell == 0) KVD_CHECK_OK(EnsureBlock(group, to_block));
      const layout::CellRecord& record = meta_.cells(group, source.block)[cell];
      const std::int64_t position = std::int64_t{record.stored_pos} + source.delta;
      const auto divided = static_cast<std::int32_t>(position / rewrite.divisor);
      if (has_bytes) {
        KVD_CHECK_OK(rotator.RotateCell(group, static_cast<BlockId>(source.block), cell,
                                        Pos{record.stored_pos}, static_cast<BlockId>(to_block),
                                        to_cell, Pos{divided}));
      }
      WriteCell(group, to_block, to_cell, record.token, divided,
                rewrite.key_form.value_or(record.key_form));
      ++part.done;
      --rewrite.cells_left;
    }
  }
  return {};
}

Status UnifiedMemory::CommitRewrite(const CellRewrite& rewrite) {
  KVD_TRY(const Found found, FindRewritten(rewrite));
  const Applying applying(this, rewrite.applied);
  const layout::SequenceRecord& old = *found.record;
  const std::uint32_t begin = rewrite.begin_cell;
  const std::uint32_t end = rewrite.end_cell;
  const Segment segments[] = {
      {&old, 0, begin}, {&old, begin, end, 0, &rewrite}, {&old, end, old.cell_count}};
  KVD_CHECK_OK(ReplaceLists(found.index, segments, std::min(old.pristine_cells, begin),
                            {old.state_slot, layout::kNoSlot, old.checkpoints}, end - begin));
  // All cells of another form were among them.
  if (rewrite.key_form)
    known_forms_[found.index] = {content_numbers_[found.index], *rewrite.key_form};
  return {};
}

void UnifiedMemory::ReleaseRewrite(CellRewrite* rewrite) {
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    for (const Piece& piece : rewrite->groups[group].destinations) {
      allocators_[group].Release(piece.block, tables_.blocks[group]);
    }
  }
  rewrite->is_open = false;
}

Result<bool> UnifiedMemory::RewriteSlice(CellRewrite& rewrite, std::uint32_t cells_max,
                                         CellRotator& rotator) {
  if (!rewrite.is_open) return true;
  const MutexLock growth(growth_mutex_);
  MutexLock lock(mutex_);
  KVD_ASSERT(!step_is_running_);
  const Result<Found> found = FindRewritten(rewrite);
  if (!found) {
    ReleaseRewrite(&rewrite);
    return std::unexpected(found.error());
  }
  std::array<std::vector<Piece>, layout::kGroupsMax> sources;
  std::uint32_t room = std::max(cells_max, 1u);
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    if (is_cross(group)) continue;
    const CellRewrite::Group& part = rewrite.groups[group];
    const std::uint32_t first = part.first_cell + part.done;
    const std::uint32_t count = std::min(room, rewrite.end_cell - first);
    AppendCells(&sources[group], ViewOf(*found->record, group), first, first + count);
    room -= count;
  }
  BeginRead();
  lock.Unlock();

  Status status = {};
  for (std::uint32_t group = 0; group < group_count() && status; ++group) {
    status = RotateCells(rewrite, group, sources[group], rotator);
  }

  lock.Lock();
  const bool is_last = rewrite.cells_left == 0;
  if (status && is_last) status = CommitRewrite(rewrite);
  if (!status || is_last) ReleaseRewrite(&rewrite);
  EndRead();
  lock.Unlock();
  if (!rewrite.is_open && segments_.pool.has_unused()) segments_.pool.PunchUnused();
  if (!status) return std::unexpected(std::move(status).error());
  return is_last;
}

void UnifiedMemory::AbandonRewrite(CellRewrite& rewrite) {
  {
    const MutexLock lock(mutex_);
    KVD_ASSERT(rewrite.is_open);
    ReleaseRewrite(&rewrite);
  }
  ReturnUnusedSlabs();
}

Result<std::uint32_t> UnifiedMemory::RewriteAll(const RewriteRequest& request,
                                                CellRotator& rotator) {
  CellRewrite rewrite;
  KVD_CHECK_OK(BeginRewrite(request, &rewrite));
  while (rewrite.is_open) KVD_CHECK_OK(RewriteSlice(rewrite, rewrite.cells_left, rotator));
  return rewrite.cell_count();
}

Result<std::uint32_t> UnifiedMemory::DividePositions(SequenceHandle handle, PosRange range,
                                                     std::int32_t divisor, CellRotator& rotator,
                                                     const AppliedRequest& applied) {
  return RewriteAll({.handle = handle,
                     .kind = RewriteRequest::Kind::kDivide,
                     .range = range,
                     .divisor = divisor,
                     .applied = applied},
                    rotator);
}

Result<std::uint32_t> UnifiedMemory::Settle(SequenceHandle handle, SettleScope scope,
                                            CellRotator& rotator) {
  return RewriteAll(
      {.handle = handle, .kind = RewriteRequest::Kind::kSettle, .range = {}, .scope = scope},
      rotator);
}

Result<std::uint32_t> UnifiedMemory::ChangeKeyForm(SequenceHandle handle, std::uint32_t key_form,
                                                   CellRotator& rotator) {
  return RewriteAll({.handle = handle,
                     .kind = RewriteRequest::Kind::kChangeForm,
                     .range = {},
                     .key_form = key_form},
                    rotator);
}

}  // namespace kvd
