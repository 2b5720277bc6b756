#include "engine/memory/forks.h"

#include <algorithm>

#include "base/clock.h"
#include "engine/memory/record_functions.h"
#include "engine/memory/state_slots.h"

namespace kvd {
namespace {

layout::SequenceRecord EmptyRecord() {
  layout::SequenceRecord record = {};
  for (layout::ListRoot& root : record.extents) root = kEmptyList;
  record.checkpoints = record.given = kEmptyList;
  record.state_slot = record.logits_slot = layout::kNoSlot;
  return record;
}

// Sets the record's lists to copies of the source's lists, up to the record's cell counts, and of
// store.checkpoints. Errors: kNoSpace.
Status WriteForkLists(MemoryStore& store, Transaction& transaction,
                      const layout::SequenceRecord& source, layout::SequenceRecord* record)
    KVD_REQUIRES(store.mutex) {
  for (std::uint32_t group = 0; group < store.group_count(); ++group) {
    record->extents[group] = kEmptyList;
    const ExtentView view = store.ViewOf(source, group);
    const std::uint32_t cell_count = CellCountOf(*record, store.geometry(), group);
    if (cell_count <= view.first_cell()) continue;
    const std::size_t entry_count = FindExtent(view, cell_count - 1) + 1;
    KVD_TRY(record->extents[group],
            transaction.CopyList(source.extents[group], static_cast<std::uint32_t>(entry_count)));
  }
  KVD_TRY(record->checkpoints, transaction.WriteCheckpoints(store.checkpoints));
  return {};
}

const layout::SequenceRecord& SourceOf(const MemoryStore& store, std::uint32_t source)
    KVD_REQUIRES(store.mutex) {
  static const layout::SequenceRecord nothing = EmptyRecord();
  return source == layout::kNoSlot ? nothing : store.meta.sequences()[source];
}

}  // namespace

Status PlanForks(const MemoryStore& store, const NewForks& forks, ForkPlan* plan) {
  const layout::SequenceRecord& source = SourceOf(store, forks.source);
  plan->source = forks.source;
  KVD_TRY(plan->state, StateAt(store, source, forks.cell_count));
  layout::SequenceRecord& record = plan->record;
  record = EmptyRecord();
  record.flags = forks.flags;
  record.owner = static_cast<std::uint64_t>(forks.owner.id);
  record.owner_session = static_cast<std::uint64_t>(forks.owner.session);
  record.namespace_salt = forks.owner.namespace_salt;
  record.expires_unix_ms = forks.owner.life.expires_unix_ms;
  record.flags |= source.flags & layout::kSequenceEphemeral;
  if (forks.owner.life.is_ephemeral) record.flags |= layout::kSequenceEphemeral;
  record.edit_number = 1;
  if (forks.source != layout::kNoSlot) {
    record.parent = static_cast<std::uint64_t>(MakeHandle(forks.source, source.generation));
    record.parent_cells = forks.cell_count;
  }
  record.cell_count = forks.cell_count;
  record.cross_cells = source.cross_cells;
  record.state_slot = plan->state.state_slot;
  const OwnerId owner = forks.owner.id;
  if (MayKeepLogits(store, plan->state.logits_slot, owner)) {
    record.logits_slot = plan->state.logits_slot;
  }
  if (owner == OwnerId{source.owner}) {
    record.sampler = source.sampler;
    record.sampler.cell_count = std::min(source.sampler.cell_count, forks.cell_count);
    record.sampler.grammar_begin = std::min(source.sampler.grammar_begin, forks.cell_count);
  }
  const CellList cells = store.CellsOf(source);
  if (forks.cell_count > 0) {
    record.next_pos = static_cast<std::int32_t>(cells.PositionAt(forks.cell_count - 1)) + 1;
  }
  SetPristine(&record, source.pristine_cells);
  for (std::uint32_t group = 0; group < store.group_count(); ++group) {
    if (store.is_cross(group)) continue;
    const std::uint32_t first = std::min(source.first_cell[group], forks.cell_count);
    record.first_cell[group] = first;
    if (first > 0) {
      KVD_CHECK_OK(store.CheckWindow(group, cells.PositionAt(first - 1), record.next_pos));
    }
  }
  return {};
}

Status PutForks(MemoryStore& store, Transaction& transaction, ForkPlan& plan,
                std::span<SequenceHandle> handles) {
  KVD_CHECK_OK(transaction.CheckSequences(handles.size()));
  const layout::SequenceRecord& source = SourceOf(store, plan.source);
  layout::SequenceRecord& record = plan.record;
  record.created_unix_ms = NowUnixMs();
  record.created_by =
      transaction.is_somebodys() ? static_cast<std::uint64_t>(transaction.tag().request) : 0;
  store.checkpoints.clear();
  if (record.state_slot != layout::kNoSlot) {
    CollectCheckpoints(store, source, record.cell_count, record.state_slot, OwnerId{record.owner});
  }
  std::uint32_t first = layout::kNoSlot;
  for (SequenceHandle& handle : handles) {
    KVD_CHECK_OK(WriteForkLists(store, transaction, source, &record));
    const std::uint32_t index = transaction.TakeSequence();
    record.generation = store.meta.sequences()[index].generation;
    const bool is_copy = first != layout::kNoSlot;
    transaction.PutNew(index, record, is_copy ? first : plan.source, is_copy);
    if (!is_copy) first = index;
    handle = MakeHandle(index, record.generation);
  }
  return {};
}

}  // namespace kvd
