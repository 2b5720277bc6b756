// The end of a step: each part is committed or given up by itself.
#include <algorithm>
#include <string>

#include "engine/memory/record_functions.h"
#include "engine/memory/unified_memory.h"
#include "shm/check.h"
#include "shm/crc32c.h"

namespace kvd {

// Extents whose cells the token at next_pos does not reach, nor any behind it: of those that the
// group still holds, the first ones.
std::size_t UnifiedMemory::CountOutOfReach(std::uint32_t group, const GroupPart& part,
                                           std::int64_t next_pos) const {
  const std::int64_t window = meta_.geometry().window[group];
  if (window == 0) return 0;
  const ExtentView view = part.view();
  std::size_t count = 0;
  // The last extent stays: its block may have a tail to fill.
  for (; count + 1 < view.entries.size(); ++count) {
    const Piece piece = view.PieceAt(count);
    const layout::CellRecord& last = meta_.cells(group, piece.block)[piece.first + piece.count - 1];
    if (next_pos - (std::int64_t{last.stored_pos} + piece.delta) < window) break;
  }
  return count;
}

Result<layout::ListRoot> UnifiedMemory::AppendToList(const layout::SequenceRecord& old,
                                                     std::uint32_t group, const GroupPart& part,
                                                     std::size_t dropped) {
  const layout::ListRoot old_root = old.extents[group];
  const auto entry_count = static_cast<std::uint32_t>(part.extents.size() - dropped);
  const std::span<const layout::Extent> entries = std::span(part.extents).subspan(dropped);
  // New entries go behind the committed ones; a full list, or one that loses its first entries, is
  // written anew.
  const bool moves =
      dropped > 0 || std::uint64_t{entry_count} * sizeof(layout::Extent) >
                         std::uint64_t{old_root.capacity_units} * layout::kListUnitBytes;
  if (moves) {
    KVD_TRY(layout::ListRoot root, AllocateList(entry_count));
    std::copy(entries.begin(), entries.end(), meta_.list(root.first_unit));
    // Of an old entry that was damaged the sum stays wrong.
    root.crc = dropped > 0
                   ? Crc32c(0, std::as_bytes(entries))
                   : Crc32c(old_root.crc, std::as_bytes(entries.subspan(old_root.entry_count)));
    return root;
  }
  const std::span<const layout::Extent> added = entries.subspan(old_root.entry_count);
  layout::ListRoot root = old_root;
  if (!added.empty()) {
    std::copy(added.begin(), added.end(), meta_.list(root.first_unit) + old_root.entry_count);
    root.entry_count = entry_count;
    root.crc = Crc32c(old_root.crc, std::as_bytes(added));
  }
  return root;
}

Status UnifiedMemory::AppendGroups(const layout::SequenceRecord& old, const StepSequence& part,
                                   layout::SequenceRecord* record) {
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    const GroupPart& cells = part.groups[group];
    GroupEdit& edit = edits_[group];
    edit.old_pieces.clear();
    edit.new_pieces.clear();
    if (is_cross(group)) continue;
    KVD_ASSERT(old.extents[group].entry_count <= cells.extents.size());
    std::size_t dropped = CountOutOfReach(group, cells, record->next_pos);
    Result<layout::ListRoot> root = AppendToList(old, group, cells, dropped);
    if (!root && dropped > 0) {  // no room for the shorter list: the old one may have some
      dropped = 0;
      root = AppendToList(old, group, cells, dropped);
    }
    if (!root) {
      for (std::uint32_t done = 0; done < group; ++done) {
        FreeReplaced(record->extents[done], old.extents[done]);
      }
      return std::unexpected(std::move(root).error());
    }
    record->extents[group] = *root;
    if (dropped > 0) record->first_cell[group] = cells.extents[dropped].start;

    // From the first entry that changed on.
    const std::size_t first = dropped > 0 ? 0 : cells.first_new_extent;
    const ExtentView old_view{std::span(cells.extents).first(old.extents[group].entry_count),
                              CellCountOf(old, meta_.geometry(), group)};
    AppendEntries(&edit.old_pieces, old_view, first);
    AppendEntries(&edit.new_pieces, cells.view(), std::max(first, dropped));
  }
  return {};
}

void UnifiedMemory::MarkRequest(const AppliedRequest& applied, std::uint32_t past_cells,
                                layout::SequenceRecord* record) {
  const auto request = static_cast<std::uint64_t>(applied.request);
  const auto session = static_cast<std::uint64_t>(applied.session);
  if (record->request == request && record->request_session == session) return;
  record->request = request;
  record->request_session = request != 0 ? session : 0;
  record->request_first_cell = request != 0 ? past_cells : 0;
  // Cells behind that one are of the request's own draws from now on.
  record->sampler.cell_count = std::min(record->sampler.cell_count, past_cells);
}

Status UnifiedMemory::Commit(StepPlan& plan, std::size_t index) {
  const MutexLock lock(mutex_);
  KVD_ASSERT(index < plan.count && open_parts_[index].is_open);
  const StepSequence& part = plan.sequences[index];
  const Result<Found> found = Find(part.handle);
  if (!found || content_numbers_[found->index] != open_parts_[index].content_number) {
    ReleasePart(plan, index);
    return Fail(Code::kConflict, HandleText(part.handle) + ": changed while it was computed");
  }
  const layout::SequenceRecord old = *found->record;
  KVD_ASSERT(old.cell_count == part.past_cells);

  layout::SequenceRecord record = old;
  record.cell_count += part.new_cells;
  record.next_pos =
      static_cast<std::int32_t>(std::int64_t{part.first_new_pos.value} + part.new_cells);
  SetPristine(&record,
              old.pristine_cells == old.cell_count ? record.cell_count : old.pristine_cells);
  record.state_slot = part.state_to;
  record.logits_slot = layout::kNoSlot;
  MarkRequest(part.applied, old.cell_count, &record);
  if (part.sampler.flags != 0) {
    record.sampler = part.sampler;
    record.sampler.cell_count = record.cell_count;
  }
  ++record.edit_number;
  Status status = AppendGroups(old, part, &record);
  if (status) {
    status = CommitRecord(found->index, record, part.new_cells);
    if (!status) {
      for (std::uint32_t group = 0; group < group_count(); ++group) {
        FreeReplaced(record.extents[group], old.extents[group]);
      }
    }
  }
  if (!status) {
    ReleasePart(plan, index);
    return status;
  }
  const KnownForm same{content_numbers_[found->index], part.key_form};
  computed_numbers_[found->index] = ++content_numbers_[found->index];
  if (known_forms_[found->index] == same)
    known_forms_[found->index].content_number = content_numbers_[found->index];
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    RecountPieces(group, holders_[found->index]);
    FreeReplaced(old.extents[group], record.extents[group]);
  }
  SettleFreed();
  ReleasePart(plan, index);
  return {};
}

void UnifiedMemory::ReleaseGroup(const GroupPart& part, std::uint32_t group) {
  for (std::size_t at = part.first_new_extent; at < part.extents.size(); ++at) {
    allocators_[group].Release(part.extents[at].block, tables_.blocks[group]);
  }
}

void UnifiedMemory::ReleasePart(StepPlan& plan, std::size_t index) {
  KVD_ASSERT(open_parts_[index].is_open);
  open_parts_[index].is_open = false;
  const StepSequence& part = plan.sequences[index];
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    ReleaseGroup(part.groups[group], group);
  }
  states_.Unpin(part.state_from, tables_.states);
  states_.Unpin(part.state_to, tables_.states);
}

void UnifiedMemory::Abandon(StepPlan& plan, std::size_t index) {
  const MutexLock lock(mutex_);
  KVD_ASSERT(index < plan.count);
  ReleasePart(plan, index);
}

void UnifiedMemory::EndStep(StepPlan& plan) {
  {
    const MutexLock lock(mutex_);
    KVD_ASSERT(step_is_running_);
    for (std::size_t index = 0; index < plan.count; ++index)
      KVD_ASSERT(!open_parts_[index].is_open);
    plan.count = 0;
    EndRead();
    step_is_running_ = false;
  }
  ReturnUnusedSlabs();
}

}  // namespace kvd
