// Dividing positions, settling shifted cells and changing the form of keys need different K bytes:
// the cells are rotated again into fresh blocks, and the sequence's lists then refer to those
// blocks.
//
// A rewrite first reserves all of its blocks and is then done in slices. Each slice looks up the
// source cells and rotates them without the lock; the last slice commits. Between two slices the
// rewrite keeps no reference to the sequence's lists or cells. After an edit of the sequence the
// next slice therefore fails with kConflict, and cells that a defragmentation has moved are looked
// up at their new places. Rotated cells are in reserved blocks, which no committed record refers
// to.
#include <algorithm>
#include <optional>
#include <string>

#include "base/check.h"
#include "engine/memory/cell_edit.h"
#include "engine/memory/cell_rewrites.h"
#include "engine/memory/eviction.h"
#include "engine/memory/record_functions.h"
#include "engine/memory/transaction.h"

namespace kvd {

Status CellRewrites::PlanDivision(const FoundSequence& found, PosRange range,
                                  CellRewrite* division) const {
  KVD_TRY(const CellRange range_cells, store_.FindCells(*found.record, range));
  const std::int32_t divisor = division->divisor;
  if (divisor <= 0) {
    return Fail(Code::kInvalidArgument, "divisor: ", divisor, ", must be above 0");
  }
  const CellList cells = store_.CellsOf(*found.record);
  const auto [begin, end] = range_cells;
  if (begin == end || divisor == 1) return {};
  // Dividing only lowers positions, so the new positions are compared only with those of the cells
  // before the range.
  const std::int64_t first = cells.PositionAt(begin) / divisor;
  if (begin > 0 && cells.PositionAt(begin - 1) > first) {
    return Fail(Code::kInvalidArgument, "divisor: ", divisor, " moves the first position to ",
                first, ", below position ", cells.PositionAt(begin - 1), " before the range");
  }
  division->begin_cell = begin;
  division->end_cell = end;
  return {};
}

Status CellRewrites::PlanSettling(const FoundSequence& found, SettleScope scope,
                                  CellRewrite* settling) const {
  const ExtentView view = store_.ViewOf(*found.record);
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

Status CellRewrites::PlanReforming(const FoundSequence& found, CellRewrite* reforming) {
  const std::uint32_t key_form = *reforming->key_form;
  if (key_form >= layout::kKeyFormsMax) {
    return Fail(Code::kInvalidArgument, "key form: ", key_form, ", must be below ",
                layout::kKeyFormsMax);
  }
  SequenceFacts& facts = store_.facts[found.index];
  if (facts.has_form(key_form)) return {};
  const ExtentView view = store_.ViewOf(*found.record);
  store_.looks.cells_at_once = std::max<std::uint64_t>(store_.looks.cells_at_once, view.cell_count);
  bool any = false;
  for (std::size_t e = 0; e < view.entries.size(); ++e) {
    const BlockRange range = view.RangeAt(e);
    const layout::CellRecord* records = store_.meta.cells(0, range.block) + range.first;
    for (std::uint32_t i = 0; i < range.count; ++i) {
      if (records[i].key_form == key_form) continue;
      if (!any) reforming->begin_cell = view.entries[e].start + i;
      reforming->end_cell = view.entries[e].start + i + 1;
      any = true;
    }
  }
  if (!any) facts.SetForm(key_form);
  return {};
}

Status CellRewrites::PlanRewrite(const FoundSequence& found, const RewriteRequest& request,
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

Status CellRewrites::ReserveRewritten(const FoundSequence& found, bool may_evict,
                                      CellRewrite* rewrite) {
  const layout::SequenceRecord& record = *found.record;
  Need need;
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    if (store_.is_cross(group)) continue;
    const std::uint32_t first =
        std::clamp(record.first_cell[group], rewrite->begin_cell, rewrite->end_cell);
    rewrite->groups[group].first_cell = first;
    rewrite->cells_left += rewrite->end_cell - first;
    need.blocks[group] =
        (rewrite->end_cell - first + layout::kBlockCells - 1) / layout::kBlockCells;
  }
  if (may_evict) MakeRoom(store_, need, {found.index, layout::kNoSlot});
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    if (need.blocks[group] > CountAvailable(store_, group)) {
      return Fail(Code::kNoSpace, store_.NoBlocks(group, need.blocks[group]));
    }
  }
  if (const Holder holder = HolderOf(record); holder.is_held) {
    KVD_CHECK_OK(rewrite->reservation.Count({.owner = holder.owner, .blocks = need.blocks}));
  }
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    if (store_.is_cross(group)) continue;
    CellRewrite::Group& part = rewrite->groups[group];
    for (std::uint32_t left = rewrite->end_cell - part.first_cell; left > 0;) {
      const std::uint32_t count = std::min(left, layout::kBlockCells);
      part.destinations.push_back(
          {rewrite->reservation.TakeBlock(group, count), 0, static_cast<std::uint16_t>(count), 0});
      left -= count;
    }
  }
  return {};
}

Result<CellRewrite> CellRewrites::Begin(const RewriteRequest& request) {
  CellRewrite rewrite;  // declared before the locks, because its destructor locks the mutex
  const MutexLock growth(store_.growth_mutex);
  const MutexLock lock(store_.mutex);
  KVD_ASSERT(!store_.step_is_running);
  KVD_TRY(const FoundSequence found, store_.FindMutable(request.handle));
  rewrite.handle = request.handle;
  rewrite.content_number = store_.facts[found.index].content_number;
  rewrite.applied = request.applied;
  KVD_CHECK_OK(PlanRewrite(found, request, &rewrite));
  if (rewrite.cell_count() == 0) {
    KVD_CHECK_OK(CommitNothing(store_, rewrite.applied, request.handle));
    return rewrite;
  }
  rewrite.reservation.Open(store_);
  KVD_CHECK_OK(ReserveRewritten(found, request.may_evict, &rewrite));
  return rewrite;
}

Result<std::uint32_t> CellRewrites::Count(const RewriteRequest& request) {
  const MutexLock lock(store_.mutex);
  KVD_TRY(const FoundSequence found, store_.FindMutable(request.handle));
  CellRewrite rewrite;
  KVD_CHECK_OK(PlanRewrite(found, request, &rewrite));
  return rewrite.cell_count();
}

Result<FoundSequence> CellRewrites::FindRewritten(const CellRewrite& rewrite) const {
  Result<FoundSequence> found = store_.Find(rewrite.handle);
  if (found && store_.facts[found->index].content_number == rewrite.content_number) return found;
  return Fail(Code::kConflict, HandleText(rewrite.handle),
              ": changed while its cells were rewritten");
}

// Rotates the next cells of a group; `sources` are the block ranges of these cells.
Status CellRewrites::RotateCells(CellRewrite& rewrite, std::uint32_t group,
                                 std::span<const BlockRange> sources, CellRotator& rotator) {
  CellRewrite::Group& part = rewrite.groups[group];
  const bool has_bytes = store_.geometry().block_stride_bytes[group] != 0;
  for (const BlockRange& source : sources) {
    for (std::uint32_t cell = source.first; cell < source.first + std::uint32_t{source.count};
         ++cell) {
      // All destinations except the last one are whole blocks.
      const std::uint32_t to_block = part.destinations[part.done / layout::kBlockCells].block;
      const std::uint32_t to_cell = part.done % layout::kBlockCells;
      if (to_cell == 0) KVD_CHECK_OK(store_.EnsureBlock(group, to_block));
      const layout::CellRecord& record = store_.meta.cells(group, source.block)[cell];
      const std::int64_t position = std::int64_t{record.stored_pos} + source.delta;
      const auto divided = static_cast<std::int32_t>(position / rewrite.divisor);
      if (has_bytes) {
        KVD_CHECK_OK(rotator.RotateCell(group, static_cast<BlockId>(source.block), cell,
                                        Pos{record.stored_pos}, static_cast<BlockId>(to_block),
                                        to_cell, Pos{divided}));
      }
      store_.WriteCell(group, to_block, to_cell, record.token, divided,
                       rewrite.key_form.value_or(record.key_form));
      ++part.done;
      --rewrite.cells_left;
    }
  }
  return {};
}

Status CellRewrites::CommitRewrite(CellRewrite& rewrite) {
  KVD_TRY(const FoundSequence found, FindRewritten(rewrite));
  const layout::SequenceRecord& old = *found.record;
  const std::uint32_t begin = rewrite.begin_cell;
  const std::uint32_t end = rewrite.end_cell;
  const SourceRange sources[] = {
      {&old, 0, begin}, {&old, begin, end, 0, &rewrite}, {&old, end, old.cell_count}};
  Transaction transaction(store_, rewrite.applied);
  KVD_TRY(layout::SequenceRecord record,
          EditCells(store_, transaction,
                    {.index = found.index,
                     .sources = sources,
                     .pristine_cells = std::min(old.pristine_cells, begin),
                     .state = {old.state_slot, layout::kNoSlot, old.checkpoints}}));
  // Only a division changes positions.
  if (rewrite.divisor != 1) {
    NoteEdit(store_, transaction,
             {.index = found.index,
              .kind = layout::kEditDivided,
              .of = &old,
              .cells = {begin, end},
              .delta = rewrite.divisor},
             &record);
  }
  transaction.Put(found.index, record, Change::kEdited);
  transaction.Answer(rewrite.handle, end - begin);
  rewrite.reservation.Uncount();  // the commit counts the blocks
  KVD_CHECK_OK(transaction.Commit());
  // The rewrite included all cells with another form, so all keys have the new form.
  if (rewrite.key_form) store_.facts[found.index].SetForm(*rewrite.key_form);
  return {};
}

Result<bool> CellRewrites::Advance(CellRewrite& rewrite, std::uint32_t cells_max,
                                   CellRotator& rotator) {
  if (!rewrite.is_open()) return true;
  const MutexLock growth(store_.growth_mutex);
  MutexLock lock(store_.mutex);
  KVD_ASSERT(!store_.step_is_running);
  const Result<FoundSequence> found = FindRewritten(rewrite);
  if (!found) {
    rewrite.reservation.GiveBack();
    return std::unexpected(found.error());
  }
  std::array<std::vector<BlockRange>, layout::kGroupsMax> sources;
  std::uint32_t room = std::max(cells_max, 1u);
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    if (store_.is_cross(group)) continue;
    const CellRewrite::Group& part = rewrite.groups[group];
    const std::uint32_t first = part.first_cell + part.done;
    const std::uint32_t count = std::min(room, rewrite.end_cell - first);
    AppendCells(&sources[group], store_.ViewOf(*found->record, group), first, first + count);
    room -= count;
  }
  store_.BeginRead();
  lock.Unlock();

  Status status = {};
  for (std::uint32_t group = 0; group < store_.group_count() && status; ++group) {
    status = RotateCells(rewrite, group, sources[group], rotator);
  }

  lock.Lock();
  const bool is_last = rewrite.cells_left == 0;
  if (status && is_last) status = CommitRewrite(rewrite);
  if (!status || is_last) rewrite.reservation.GiveBack();
  store_.EndRead();
  lock.Unlock();
  if (!rewrite.is_open() && store_.segments.pool.has_unused()) store_.segments.pool.PunchUnused();
  if (!status) return std::unexpected(std::move(status).error());
  return is_last;
}

}  // namespace kvd
