// Verbs on whole sequences. A fork takes a free record, copies the extents, makes one commit and
// updates the block counts once.
#include "engine/memory/sequences.h"

#include <array>
#include <string>

#include "engine/memory/eviction.h"
#include "engine/memory/forks.h"
#include "engine/memory/prefix_sync.h"
#include "engine/memory/record_functions.h"
#include "engine/memory/state_slots.h"
#include "engine/memory/transaction.h"

namespace kvd {

Result<SequenceHandle> Sequences::Create(const SequenceOwner& owner, const RequestTag& tag) {
  const MutexLock lock(store_.mutex);
  ForkPlan plan;
  KVD_CHECK_OK(PlanForks(store_, {.owner = owner}, &plan));
  MakeRoom(store_, {.sequences = 1});
  Transaction transaction(store_, tag);
  SequenceHandle handle = SequenceHandle::kNone;
  KVD_CHECK_OK(PutForks(store_, transaction, plan, {&handle, 1}));
  transaction.Answer(handle, 0, 1);
  KVD_CHECK_OK(transaction.Commit());
  return handle;
}

Status Sequences::Fork(SequenceHandle source, const SequenceOwner& owner,
                       std::span<SequenceHandle> handles, std::optional<std::uint32_t> cell_count,
                       const RequestTag& tag) {
  const MutexLock lock(store_.mutex);
  if (handles.empty() || handles.size() > layout::kForksMax) {
    return Fail(Code::kInvalidArgument, "forks: ", handles.size(), ", must be 1 to ",
                layout::kForksMax);
  }
  KVD_TRY(const FoundSequence found, store_.FindWhole(source));
  const std::uint32_t wanted = cell_count.value_or(found.record->cell_count);
  if (wanted > found.record->cell_count) {
    return Fail(Code::kInvalidArgument, "cell_count: ", wanted, ", ", HandleText(source), " has ",
                found.record->cell_count);
  }
  ForkPlan plan;
  KVD_CHECK_OK(
      PlanForks(store_, {.source = found.index, .owner = owner, .cell_count = wanted}, &plan));
  NoteUse(store_, found.index);
  const std::array<std::uint32_t, 2> kept = {found.index, layout::kNoSlot};
  MakeRoom(store_, {.sequences = static_cast<std::uint32_t>(handles.size())}, kept);
  MakeRoomForLists(store_, kept);
  Transaction transaction(store_, tag);
  KVD_CHECK_OK(PutForks(store_, transaction, plan, handles));
  transaction.Answer(handles.front(), wanted, handles.size());
  return transaction.Commit();
}

Status Sequences::Drop(SequenceHandle handle, const RequestTag& tag) {
  {
    const MutexLock lock(store_.mutex);
    KVD_TRY(const FoundSequence found, store_.FindUnpublished(handle));
    KVD_CHECK_OK(DropIndices({&found.index, 1}, tag));
  }
  store_.ReturnUnusedSlabs();
  return {};
}

Status Sequences::DropAll(std::span<const SequenceHandle> handles, const RequestTag& tag) {
  {
    std::vector<std::uint32_t> dropped;
    dropped.reserve(handles.size());
    const MutexLock lock(store_.mutex);
    store_.BeginMarks();
    for (const SequenceHandle handle : handles) {
      KVD_TRY(const FoundSequence found, store_.FindUnpublished(handle));
      if (!store_.Mark(&store_.sequence_marks, found.index)) {
        return Fail(Code::kInvalidArgument, HandleText(handle), ": given twice");
      }
      dropped.push_back(found.index);
    }
    KVD_CHECK_OK(DropIndices(dropped, tag));
  }
  store_.ReturnUnusedSlabs();
  return {};
}

Status Sequences::Keep(SequenceHandle kept, SessionId session, const RequestTag& tag) {
  {
    std::vector<std::uint32_t> dropped;
    const MutexLock lock(store_.mutex);
    KVD_TRY(const FoundSequence found, store_.Find(kept));
    if (found.record->owner_session != static_cast<std::uint64_t>(session)) {
      return Fail(Code::kPermission, HandleText(kept), ": belongs to another session");
    }
    OwnerTable::Cursor cursor;
    std::array<std::uint32_t, kListedAtOnce> indices;
    for (std::size_t count = indices.size(); count == indices.size();) {
      count =
          store_.tables.owners.ListSession(static_cast<std::uint64_t>(session), &cursor, indices);
      store_.NoteLooks(count);
      for (const std::uint32_t index : std::span(indices).first(count)) {
        const bool is_published =
            (store_.meta.sequences()[index].flags & layout::kSequencePublished) != 0;
        if (index != found.index && !is_published) dropped.push_back(index);
      }
    }
    KVD_CHECK_OK(DropIndices(dropped, tag));
  }
  store_.ReturnUnusedSlabs();
  return {};
}

Status Sequences::DropIndices(std::span<const std::uint32_t> indices, const RequestTag& tag) {
  if (indices.empty()) return CommitNothing(store_, tag, SequenceHandle::kNone);
  Transaction transaction(store_, tag);
  for (const std::uint32_t index : indices) transaction.Free(index);
  transaction.Answer(SequenceHandle::kNone, static_cast<std::uint32_t>(indices.size()));
  return transaction.Commit();
}

Status Sequences::SetOwner(SequenceHandle handle, const SequenceOwner& owner,
                           std::uint32_t flags_set, std::uint32_t flags_clear,
                           const RequestTag& tag) {
  constexpr std::uint32_t kChangeable = layout::kSequenceRetained | layout::kSequencePinned;
  if (((flags_set | flags_clear) & ~kChangeable) != 0 || (flags_set & flags_clear) != 0) {
    return Fail(Code::kInvalidArgument, "flags: set ", flags_set, ", clear ", flags_clear,
                ", must be disjoint subsets of retained and pinned");
  }
  const MutexLock lock(store_.mutex);
  KVD_TRY(const FoundSequence found, store_.FindUnpublished(handle));
  layout::SequenceRecord record = *found.record;
  if (record.owner_session != static_cast<std::uint64_t>(owner.session)) {
    record.created_by = record.request = record.request_session = 0;
    record.request_first_cell = 0;
  }
  record.owner = static_cast<std::uint64_t>(owner.id);
  record.owner_session = static_cast<std::uint64_t>(owner.session);
  record.namespace_salt = owner.namespace_salt;
  record.expires_unix_ms = owner.life.expires_unix_ms;
  record.flags = (record.flags | flags_set) & ~flags_clear;
  if (owner.life.is_ephemeral) record.flags |= layout::kSequenceEphemeral;
  constexpr std::uint32_t kNeverBoth = layout::kSequenceEphemeral | layout::kSequenceRetained;
  if ((record.flags & kNeverBoth) == kNeverBoth) {
    return Fail(Code::kInvalidArgument, HandleText(handle),
                ": a retained sequence is not ephemeral");
  }
  if ((record.flags & layout::kSequenceRetained) != 0) {
    record.given = kEmptyList;
    record.given_from = 0;
  }
  Transaction transaction(store_, tag);
  const Holder holder = HolderOf(record);
  if (holder.is_held && holder != HolderOf(*found.record)) {
    KVD_CHECK_OK(TrimCaches(transaction, holder.owner, &record));
  }
  return PutFacts(transaction, found, record);
}

Status Sequences::SetSampler(SequenceHandle handle, const layout::SamplerRecord& sampler) {
  const MutexLock lock(store_.mutex);
  KVD_TRY(const FoundSequence found, store_.FindMutable(handle));
  layout::SequenceRecord record = *found.record;
  if (sampler.grammar_begin > record.cell_count) {
    return Fail(Code::kCorrupt, HandleText(handle), ": the sampler's grammar begins after ",
                sampler.grammar_begin, " cells, the sequence has ", record.cell_count);
  }
  record.sampler = sampler;
  if (sampler.flags != 0) record.sampler.cell_count = record.cell_count;
  Transaction transaction(store_);
  return PutFacts(transaction, found, record);
}

Status Sequences::TrimCaches(Transaction& transaction, OwnerId owner,
                             layout::SequenceRecord* record) {
  if (!MayKeepLogits(store_, record->logits_slot, owner)) record->logits_slot = layout::kNoSlot;
  const auto checkpoints = store_.meta.checkpoints(record->checkpoints);
  store_.checkpoints.assign(checkpoints.begin(), checkpoints.end());
  TrimCheckpoints(store_, owner);
  if (store_.checkpoints.size() == checkpoints.size()) return {};
  KVD_TRY(record->checkpoints, transaction.WriteCheckpoints(store_.checkpoints));
  return {};
}

Status Sequences::PutFacts(Transaction& transaction, const FoundSequence& found,
                           const layout::SequenceRecord& record) {
  transaction.Put(found.index, record, Change::kFacts);
  transaction.Answer(MakeHandle(found.index, record.generation), 0);
  return transaction.Commit();
}

}  // namespace kvd
