// Checkpoints and rows of logits are caches: a sequence keeps them until their slots are needed for
// other sequences (state_slots.h).
#include "engine/memory/recurrent_states.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "engine/memory/state_slots.h"
#include "engine/memory/transaction.h"

namespace kvd {

Result<bool> RecurrentStates::KeepCheckpoint(SequenceHandle handle) {
  const MutexLock lock(store_.mutex);
  KVD_TRY(const FoundSequence found, store_.Find(handle));
  layout::SequenceRecord record = *found.record;
  if (record.state_slot == layout::kNoSlot) return false;
  CollectCheckpoints(store_, record, record.cell_count, record.state_slot, OwnerId{record.owner});
  const bool is_kept =
      !store_.checkpoints.empty() && store_.checkpoints.back().cell_count == record.cell_count;
  if (std::ranges::equal(store_.checkpoints, store_.meta.checkpoints(record.checkpoints)))
    return is_kept;
  Transaction transaction(store_);
  KVD_TRY(record.checkpoints, transaction.WriteCheckpoints(store_.checkpoints));
  transaction.Put(found.index, record, Change::kFacts);
  KVD_CHECK_OK(transaction.Commit());
  return is_kept;
}

Result<bool> RecurrentStates::KeepLogits(SequenceHandle handle, const float* row) {
  const MutexLock growth(store_.growth_mutex);
  std::uint32_t slot = layout::kNoSlot;
  {
    const MutexLock lock(store_.mutex);
    KVD_TRY(const FoundSequence found, store_.Find(handle));
    if (!FindLogits(store_, OwnerId{found.record->owner})) return false;
    slot = store_.logits.TakePinned();
  }
  Status status = store_.EnsureLogits(slot);
  if (status) {
    std::memcpy(store_.LogitsPlace(slot), row, store_.segments.geometry.logits_bytes);
  }

  const MutexLock lock(store_.mutex);
  const Result<FoundSequence> found = store_.Find(handle);
  if (status && !found) status = std::unexpected(found.error());
  // The row belongs to the cells that the sequence had at the end of its step, so the row of logits
  // is kept only if the sequence's cells have not changed since the step.
  bool is_current = false;
  if (status) {
    const SequenceFacts& facts = store_.facts[found->index];
    is_current = facts.computed_number == facts.content_number;
  }
  if (is_current) {
    layout::SequenceRecord record = *found->record;
    record.logits_slot = slot;
    Transaction transaction(store_);
    transaction.Put(found->index, record, Change::kFacts);
    status = transaction.Commit();
  }
  store_.logits.Unpin(slot, store_.tables.logits);
  if (!status) return std::unexpected(std::move(status).error());
  return is_current;
}

Result<bool> RecurrentStates::ReadLogits(SequenceHandle handle, float* row) const {
  const MutexLock lock(store_.mutex);
  KVD_TRY(const FoundSequence found, store_.Find(handle));
  if (found.record->logits_slot == layout::kNoSlot) return false;
  std::memcpy(row, store_.LogitsPlace(found.record->logits_slot),
              store_.segments.geometry.logits_bytes);
  return true;
}

}  // namespace kvd
