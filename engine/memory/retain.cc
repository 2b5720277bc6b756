// Makes a sequence that its client has released part of the prefix cache.
#include <algorithm>

#include "engine/memory/cell_edit.h"
#include "engine/memory/eviction.h"
#include "engine/memory/history.h"
#include "engine/memory/prefix_cache.h"
#include "engine/memory/prefix_sync.h"
#include "engine/memory/transaction.h"

namespace kvd {

Result<bool> PrefixCache::Retain(SequenceHandle handle, const RequestTag& tag) {
  bool stays = false;
  {
    const MutexLock lock(store_.mutex);
    KVD_TRY(const FoundSequence found, store_.FindMutable(handle));
    KVD_TRY(stays, RetainFound(found, tag));
  }
  if (!stays) store_.ReturnUnusedSlabs();
  return stays;
}

std::uint32_t PrefixCache::CountRetainable(const FoundSequence& found) const {
  const std::uint32_t pristine = store_.prefix.index.depth(found.index);
  if (!store_.has_state() || pristine == found.record->cell_count) return pristine;
  // With recurrent state, only the cells up to the last checkpoint within the pristine cells can be
  // reused.
  const auto checkpoints = store_.meta.checkpoints(found.record->checkpoints);
  const auto behind =
      std::ranges::upper_bound(checkpoints, pristine, {}, &layout::Checkpoint::cell_count);
  return behind == checkpoints.begin() ? 0 : std::prev(behind)->cell_count;
}

Result<bool> PrefixCache::RetainFound(const FoundSequence& found, const RequestTag& tag) {
  const layout::SequenceRecord& old = *found.record;
  const SequenceHandle handle = MakeHandle(found.index, old.generation);
  if ((old.flags & layout::kSequenceRetained) != 0) {
    KVD_CHECK_OK(CommitNothing(store_, tag, handle));
    return true;
  }
  const bool is_pinned = (old.flags & layout::kSequencePinned) != 0;
  const std::uint32_t kept = CountRetainable(found);
  bool stays = is_pinned || kept >= kCellsMin;
  if (!is_pinned && kept == old.cell_count && IsRetainedElsewhere(found.index)) stays = false;
  if ((old.flags & layout::kSequenceEphemeral) != 0) stays = false;
  Transaction transaction(store_, tag);
  layout::SequenceRecord record = old;
  if (stays && !is_pinned && kept < old.cell_count) {
    Result<layout::SequenceRecord> cut = CutTail(store_, transaction, found.index, kept);
    if (cut) record = *cut;
    // CutTail fails if a window has dropped cells that the next token reaches.
    stays = cut.has_value();
  }
  if (!stays) {
    transaction.Free(found.index);
    transaction.Answer(SequenceHandle::kNone, 1);
    KVD_CHECK_OK(transaction.Commit());
    return false;
  }
  // One commit cuts the sequence and sets its flag.
  record.flags |= layout::kSequenceRetained;
  const bool is_cut = record.cell_count < old.cell_count;
  if (is_cut) {
    NoteEdit(store_, transaction,
             {.index = found.index, .of = &old, .cells = {record.cell_count, old.cell_count}},
             &record);
  }
  transaction.Put(found.index, record, is_cut ? Change::kEdited : Change::kFacts);
  transaction.Answer(handle, old.cell_count - record.cell_count);
  KVD_CHECK_OK(transaction.Commit());
  NoteUse(store_, found.index);
  return true;
}

bool PrefixCache::IsRetainedElsewhere(std::uint32_t index) const {
  // With recurrent states, a prompt can take a prefix only at a sequence's checkpoints; with
  // windows, only a prefix that ends near the sequence's end. Another sequence with the same tokens
  // therefore does not replace this sequence.
  const layout::MetaGeometry& geometry = store_.geometry();
  if (store_.has_state() ||
      std::ranges::any_of(geometry.window, [](auto cells) { return cells != 0; })) {
    return false;
  }
  return store_.prefix.index.IsCovered(index, [this](std::uint32_t other) {
    return (store_.meta.sequences()[other].flags & layout::kSequenceRetained) != 0;
  });
}

std::uint32_t PrefixCache::LimitRetained(std::uint32_t sequences_max) {
  std::uint32_t count = 0;
  bool goes_on = true;
  while (goes_on) {
    // The mutex is locked for each eviction separately, because dropping a long sequence visits all
    // of its cells.
    const MutexLock lock(store_.mutex);
    if (store_.prefix.retained.size() <= sequences_max) break;
    const std::uint32_t index = *store_.prefix.retained.Least(store_.prefix.use_number);
    goes_on = Evict(store_, index);
    count += goes_on;
  }
  if (count > 0) store_.ReturnUnusedSlabs();
  return count;
}

}  // namespace kvd
