// This file implements the end of a step: each part is committed or abandoned separately.
#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/crc32c.h"
#include "engine/memory/record_functions.h"
#include "engine/memory/steps.h"

namespace kvd {

// The number of leading extents that the token at next_pos does not reach; no later token reaches
// them either.
std::size_t Steps::CountOutOfReach(std::uint32_t group, const GroupPart& part,
                                   std::int64_t next_pos) const {
  const std::int64_t window = store_.geometry().window[group];
  if (window == 0) return 0;
  const ExtentView view = part.view();
  std::size_t count = 0;
  // The last extent is kept, because its block may have a tail to fill.
  for (; count + 1 < view.entries.size(); ++count) {
    const BlockRange range = view.RangeAt(count);
    const layout::CellRecord& last =
        store_.meta.cells(group, range.block)[range.first + range.count - 1];
    if (next_pos - (std::int64_t{last.stored_pos} + range.delta) < window) break;
  }
  return count;
}

Result<layout::ListRoot> Steps::AppendToList(Transaction& transaction,
                                             const layout::SequenceRecord& old, std::uint32_t group,
                                             const GroupPart& part, std::size_t dropped) {
  const layout::ListRoot old_root = old.extents[group];
  const auto entry_count = static_cast<std::uint32_t>(part.extents.size() - dropped);
  const std::span<const layout::Extent> entries = std::span(part.extents).subspan(dropped);
  // New entries are appended after the list's committed entries. A new list is written if the old
  // list is full or loses its first entries.
  const bool moves =
      dropped > 0 || std::uint64_t{entry_count} * sizeof(layout::Extent) >
                         std::uint64_t{old_root.capacity_units} * layout::kListUnitBytes;
  if (moves) {
    KVD_TRY(layout::ListRoot root, transaction.AllocateList(entry_count));
    std::copy(entries.begin(), entries.end(), store_.meta.list(root.first_unit));
    // The checksum of the old list is extended over the new entries and not computed again from all
    // entries, so that the checksum stays wrong if a committed entry is damaged.
    root.crc = dropped > 0
                   ? Crc32c(0, std::as_bytes(entries))
                   : Crc32c(old_root.crc, std::as_bytes(entries.subspan(old_root.entry_count)));
    return root;
  }
  const std::span<const layout::Extent> added = entries.subspan(old_root.entry_count);
  layout::ListRoot root = old_root;
  if (!added.empty()) {
    std::copy(added.begin(), added.end(), store_.meta.list(root.first_unit) + old_root.entry_count);
    root.entry_count = entry_count;
    root.crc = Crc32c(old_root.crc, std::as_bytes(added));
  }
  return root;
}

Status Steps::AppendGroups(Transaction& transaction, const layout::SequenceRecord& old,
                           const StepSequence& part, layout::SequenceRecord* record) {
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    const GroupPart& cells = part.groups[group];
    if (store_.is_cross(group)) continue;
    KVD_ASSERT(old.extents[group].entry_count <= cells.extents.size());
    std::size_t dropped = CountOutOfReach(group, cells, record->next_pos);
    Result<layout::ListRoot> root = AppendToList(transaction, old, group, cells, dropped);
    if (!root && dropped > 0) {  // no list units for the shorter list: the old list may have room
      dropped = 0;
      root = AppendToList(transaction, old, group, cells, dropped);
    }
    if (!root) return std::unexpected(std::move(root).error());
    record->extents[group] = *root;
    if (dropped > 0) record->first_cell[group] = cells.extents[dropped].start;
  }
  return {};
}

// The tokens of a part that computes again what the sequence has given back.
Status Steps::TakeGiven(const StepSequence& part, layout::SequenceRecord* record) const {
  const auto given = store_.meta.tokens(record->given);
  const std::size_t at = part.past_cells - record->given_from;
  const std::size_t count = std::min(part.tokens.size(), given.size() - at);
  if (!std::ranges::equal(std::span(part.tokens).first(count), given.subspan(at, count))) {
    return Fail(Code::kConflict, HandleText(part.handle),
                ": its tokens that have given their cells back must be computed first");
  }
  if (at + count == given.size()) {
    record->given = kEmptyList;
    record->given_from = 0;
  }
  return {};
}

Status Steps::CommitFound(const FoundSequence& found, const StepSequence& part, OpenPart* open) {
  const layout::SequenceRecord& old = *found.record;
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
  if (old.given.entry_count != 0) KVD_CHECK_OK(TakeGiven(part, &record));
  if (part.sampler.flags != 0) {
    record.sampler = part.sampler;
    record.sampler.cell_count = record.cell_count;
  }
  Transaction transaction(store_);
  KVD_CHECK_OK(AppendGroups(transaction, old, part, &record));
  transaction.Put(found.index, record, Change::kComputed);
  SequenceFacts& facts = store_.facts[found.index];
  const bool has_form = facts.has_form(part.key_form);
  open->reservation.Uncount();  // the commit counts the same resources
  KVD_CHECK_OK(transaction.Commit());
  if (has_form) facts.SetForm(part.key_form);
  return {};
}

Status Steps::Commit(StepPlan& plan, std::size_t index) {
  const MutexLock lock(store_.mutex);
  KVD_ASSERT(index < plan.count && open_parts_[index].reservation.is_open());
  const StepSequence& part = plan.sequences[index];
  const Result<FoundSequence> found = store_.Find(part.handle);
  Status status = {};
  if (found && store_.facts[found->index].content_number == open_parts_[index].content_number) {
    status = CommitFound(*found, part, &open_parts_[index]);
  } else {
    status = Fail(Code::kConflict, HandleText(part.handle), ": changed while it was computed");
  }
  open_parts_[index].reservation.GiveBack();
  return status;
}

void Steps::Abandon(StepPlan& plan, std::size_t index) {
  const MutexLock lock(store_.mutex);
  KVD_ASSERT(index < plan.count && open_parts_[index].reservation.is_open());
  open_parts_[index].reservation.GiveBack();
}

void Steps::EndStep(StepPlan& plan) {
  {
    const MutexLock lock(store_.mutex);
    KVD_ASSERT(store_.step_is_running);
    for (std::size_t index = 0; index < plan.count; ++index) {
      KVD_ASSERT(!open_parts_[index].reservation.is_open());
    }
    plan.count = 0;
    store_.EndRead();
    store_.step_is_running = false;
  }
  store_.ReturnUnusedSlabs();
}

}  // namespace kvd
