#include "engine/memory/transaction.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "base/check.h"
#include "base/crc32c.h"
#include "engine/memory/prefix_sync.h"
#include "engine/memory/record_functions.h"

namespace kvd {

// ---- list writer
Result<layout::ListRoot> AllocateList(MemoryStore& store, std::uint32_t entry_count) {
  if (entry_count == 0) return kEmptyList;
  const std::uint32_t units = ListUnitsFor(entry_count);
  const std::optional<std::uint32_t> first = store.tables.lists.Allocate(units);
  if (!first) return store.NoListUnits(units);
  return layout::ListRoot{*first, units, entry_count, 0};
}

Result<layout::ListRoot> WriteList(MemoryStore& store, std::span<const BlockRange> ranges,
                                   std::uint32_t first_cell) {
  KVD_TRY(layout::ListRoot root, AllocateList(store, static_cast<std::uint32_t>(ranges.size())));
  if (root.entry_count == 0) return root;
  StoreExtents(ranges, first_cell, store.meta.list(root.first_unit));
  root.crc = Crc32c(0, std::as_bytes(store.meta.entries(root)));
  return root;
}

void FreeList(MemoryStore& store, const layout::ListRoot& root) {
  if (root.capacity_units != 0) store.tables.lists.Free(root.first_unit, root.capacity_units);
}

// ---- transaction
// Collects the changes of a verb: new lists, free records that it takes, and changed records.
Transaction::Transaction(MemoryStore& store, const RequestTag& tag)
    : store_(store), scratch_(store.scratch), tag_(tag) {
  KVD_ASSERT(!scratch_.is_open);
  scratch_.is_open = true;
  store_.log.Begin();
}

Transaction::~Transaction() {
  store_.mutex.AssertHeld();
  if (!is_committed_) {
    for (const layout::ListRoot& root : scratch_.lists) FreeList(store_, root);
    for (const std::uint32_t index : scratch_.taken) store_.tables.sequences.Give(index);
    for (const std::uint32_t index : scratch_.taken_snapshots) store_.tables.snapshots.Give(index);
    for (const std::uint32_t index : scratch_.taken_sessions) store_.tables.sessions.Give(index);
  }
  scratch_.records.clear();
  scratch_.snapshots.clear();
  scratch_.sessions.clear();
  scratch_.lists.clear();
  scratch_.taken.clear();
  scratch_.taken_snapshots.clear();
  scratch_.taken_sessions.clear();
  scratch_.is_open = false;
}

// ------------------------------------------------------------------------------------------- lists

Result<layout::ListRoot> Transaction::AllocateList(std::uint32_t entry_count) {
  store_.mutex.AssertHeld();
  KVD_TRY(const layout::ListRoot root, kvd::AllocateList(store_, entry_count));
  Adopt(root);
  return root;
}

Result<layout::ListRoot> Transaction::WriteList(std::span<const BlockRange> ranges,
                                                std::uint32_t first_cell) {
  store_.mutex.AssertHeld();
  KVD_TRY(const layout::ListRoot root, kvd::WriteList(store_, ranges, first_cell));
  Adopt(root);
  return root;
}

Result<layout::ListRoot> Transaction::CopyList(const layout::ListRoot& source,
                                               std::uint32_t entry_count) {
  KVD_TRY(layout::ListRoot root, AllocateList(entry_count));
  if (root.entry_count == 0) return root;
  const auto entries = store_.meta.entries(source).first(entry_count);
  std::copy(entries.begin(), entries.end(), store_.meta.list(root.first_unit));
  // A complete copy keeps the checksum, so that damage of the source stays detectable in the copy.
  root.crc = entry_count == source.entry_count ? source.crc : Crc32c(0, std::as_bytes(entries));
  return root;
}

Result<layout::ListRoot> Transaction::WriteCheckpoints(
    std::span<const layout::Checkpoint> checkpoints) {
  KVD_TRY(layout::ListRoot root, AllocateList(static_cast<std::uint32_t>(checkpoints.size())));
  if (root.entry_count == 0) return root;
  std::copy(checkpoints.begin(), checkpoints.end(), store_.meta.checkpoint_list(root.first_unit));
  root.crc = Crc32c(0, std::as_bytes(store_.meta.checkpoints(root)));
  return root;
}

Result<layout::ListRoot> Transaction::WriteTokens(std::span<const TokenId> tokens) {
  store_.mutex.AssertHeld();
  KVD_TRY(layout::ListRoot root, AllocateList(ExtentsForTokens(tokens.size())));
  if (root.entry_count == 0) return root;
  root.entry_count = static_cast<std::uint32_t>(tokens.size());
  std::copy(tokens.begin(), tokens.end(), store_.meta.token_list(root.first_unit));
  root.crc = Crc32c(0, std::as_bytes(store_.meta.tokens(root)));
  return root;
}

void Transaction::Adopt(const layout::ListRoot& root) {
  if (root.capacity_units != 0) scratch_.lists.push_back(root);
}

void Transaction::GiveBack(const layout::ListRoot& root) {
  store_.mutex.AssertHeld();
  if (root.capacity_units == 0) return;
  const auto at = std::ranges::find(scratch_.lists, root.first_unit, &layout::ListRoot::first_unit);
  KVD_ASSERT(at != scratch_.lists.end());
  scratch_.lists.erase(at);
  FreeList(store_, root);
}

// ------------------------------------------------------------------------------------ free records

Status Transaction::CheckSequences(std::size_t count) const {
  store_.mutex.AssertHeld();
  const FreeSet& sequences = store_.tables.sequences;
  if (sequences.free_count() >= count) return {};
  return Fail(Code::kNoSpace, "sequences: ", count, " needed, ", sequences.free_count(),
              " free of ", sequences.capacity());
}

std::uint32_t Transaction::TakeSequence() {
  store_.mutex.AssertHeld();
  const std::uint32_t index = *store_.tables.sequences.TakeLowest();
  scratch_.taken.push_back(index);
  return index;
}

std::optional<std::uint32_t> Transaction::TakeSnapshot() {
  store_.mutex.AssertHeld();
  const std::optional<std::uint32_t> index = store_.tables.snapshots.TakeLowest();
  if (index) scratch_.taken_snapshots.push_back(*index);
  return index;
}

std::optional<std::uint32_t> Transaction::TakeSession() {
  store_.mutex.AssertHeld();
  const std::optional<std::uint32_t> index = store_.tables.sessions.TakeLowest();
  if (index) scratch_.taken_sessions.push_back(*index);
  return index;
}

// ----------------------------------------------------------------------------------------- changes

layout::SequenceRecord* Transaction::PutRecord(std::uint32_t index,
                                               const layout::SequenceRecord& record) {
  return reinterpret_cast<layout::SequenceRecord*>(
      store_.log.Put(store_.meta.sequence_offset(index), std::as_bytes(std::span(&record, 1))));
}

void Transaction::Put(std::uint32_t index, const layout::SequenceRecord& record, Change change) {
  store_.mutex.AssertHeld();
  Record& entry = scratch_.records.emplace_back();
  entry.index = index;
  entry.change = change;
  entry.was_live = true;
  entry.was_counted = true;
  entry.put = PutRecord(index, record);
  if (entry.put == nullptr) return;
  entry.put->edit_number =
      store_.meta.sequences()[index].edit_number + (change == Change::kMoved ? 0 : 1);
}

void Transaction::PutNew(std::uint32_t index, const layout::SequenceRecord& record,
                         std::uint32_t alike, bool is_copy) {
  store_.mutex.AssertHeld();
  KVD_ASSERT(!is_copy || !scratch_.records.empty());
  Record& entry = scratch_.records.emplace_back();
  entry.index = index;
  entry.change = Change::kEdited;
  entry.is_copy = is_copy;
  entry.alike = alike;
  entry.put = PutRecord(index, record);
}

void Transaction::PutEdit(std::uint32_t index, std::uint32_t place,
                          const layout::EditRecord& edit) {
  store_.mutex.AssertHeld();
  KVD_ASSERT(place < layout::kEditsKept);
  store_.log.Put(store_.meta.history_offset(index) + place * sizeof edit,
                 std::as_bytes(std::span(&edit, 1)));
}

void Transaction::Free(std::uint32_t index) {
  store_.mutex.AssertHeld();
  // Only the first 8 bytes are written, so that one commit record can free every sequence, and the
  // roots of the lists can still be read from the rest of the record.
  static_assert(offsetof(layout::SequenceRecord, generation) == 0 &&
                offsetof(layout::SequenceRecord, flags) == 4);
  const std::uint32_t next = store_.meta.sequences()[index].generation + 1;
  const std::uint32_t start[2] = {next == 0 ? 1 : next, 0};
  store_.log.Put(store_.meta.sequence_offset(index), std::as_bytes(std::span(start)));
  Record& entry = scratch_.records.emplace_back();
  entry.index = index;
  entry.change = Change::kEdited;
  entry.was_live = true;
  entry.was_counted = true;
  entry.is_freed = true;
}

void Transaction::FreeUncounted(std::uint32_t index) {
  Free(index);
  scratch_.records.back().was_counted = false;
}

void Transaction::PutSnapshot(std::uint32_t index, const layout::SnapshotRecord& record) {
  store_.mutex.AssertHeld();
  scratch_.snapshots.push_back({index, store_.meta.snapshots()[index], record});
  store_.log.Put(store_.meta.snapshot_offset(index), std::as_bytes(std::span(&record, 1)));
}

void Transaction::PutSession(std::uint32_t index, const layout::SessionRecord& record) {
  store_.mutex.AssertHeld();
  scratch_.sessions.push_back({index, store_.meta.sessions()[index].session, record.session});
  store_.log.Put(store_.meta.session_offset(index), std::as_bytes(std::span(&record, 1)));
}

void Transaction::PutSessionNote(std::uint32_t index, const layout::SessionRecord& record) {
  store_.mutex.AssertHeld();
  store_.log.Put(
      store_.meta.session_offset(index),
      std::as_bytes(std::span(&record, 1)).first(offsetof(layout::SessionRecord, applied)));
}

void Transaction::EndRequest(layout::SequenceRecord* record) const {
  if (record->request == 0) return;
  if (is_somebodys() || record->request_first_cell > record->cell_count) {
    record->request_first_cell = layout::kNoSlot;
  }
}

void Transaction::Answer(SequenceHandle sequence, std::uint32_t cells, std::size_t created,
                         layout::AppliedState state) {
  store_.mutex.AssertHeld();
  if (!tag_.is_somebodys() || !tag_.completes) return;
  const auto found = store_.tables.sessions_by_id.find(static_cast<std::uint64_t>(tag_.session));
  // A session that is not stored cannot be resumed.
  if (found == store_.tables.sessions_by_id.end()) return;
  const auto& window = store_.meta.sessions()[found->second].applied;
  const auto request = static_cast<std::uint64_t>(tag_.request);
  // `at` is the session's record of the transaction's request, if that request has a record. If the
  // request has none, `at` is the record with the lowest request id, which is overwritten.
  const auto* at = std::ranges::find(window, request, &layout::AppliedRecord::request);
  if (at == std::end(window)) {
    at = std::ranges::min_element(window, {}, &layout::AppliedRecord::request);
  }
  const auto place = static_cast<std::uint64_t>(at - window);
  const layout::AppliedRecord record{.request = request,
                                     .sequence = static_cast<std::uint64_t>(sequence),
                                     .cells = cells,
                                     .replayed = tag_.replayed,
                                     .verb = tag_.kind,
                                     .created = static_cast<std::uint16_t>(created),
                                     .state = state};
  store_.log.Put(store_.meta.session_offset(found->second) +
                     offsetof(layout::SessionRecord, applied) + place * sizeof record,
                 std::as_bytes(std::span(&record, 1)));
}

Status CommitNothing(MemoryStore& store, const RequestTag& tag, SequenceHandle sequence) {
  if (!tag.is_somebodys() || !tag.completes) return {};
  Transaction transaction(store, tag);
  transaction.Answer(sequence, 0);
  return transaction.Commit();
}

}  // namespace kvd
