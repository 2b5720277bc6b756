// The order of Commit: first, the references of new records are counted, those of replaced records
// are removed from the counts, and the limits of owners are checked, so that every check precedes
// the commit. Then the commit record makes the change durable. The remaining updates of derived
// tables follow and cannot fail.
//
// Counting compares lists entry by entry. Only the number of entries in a list's root says which
// entries are committed, so the old content of a list that grows or is cut in place can still be
// read.
#include <cstring>

#include <algorithm>
#include <string>

#include "base/check.h"
#include "engine/memory/prefix_sync.h"
#include "engine/memory/transaction.h"

namespace kvd {
namespace {

// The number of leading entries of both lists that refer to the same cells. The last entry of
// either list is not counted, because a list does not store where its last entry ends.
std::size_t CountSameInFront(std::span<const layout::Extent> a, std::span<const layout::Extent> b) {
  const std::size_t end = std::min(a.size(), b.size());
  std::size_t at = 0;
  while (at + 1 < end && a[at].block == b[at].block && a[at].first == b[at].first &&
         a[at + 1].start - a[at].start == b[at + 1].start - b[at].start) {
    ++at;
  }
  return at;
}

// The number of trailing entries of both lists that refer to the same cells, at most `most`.
std::size_t CountSameBehind(const ExtentView& a, const ExtentView& b, std::size_t most) {
  std::uint32_t end_a = a.cell_count;
  std::uint32_t end_b = b.cell_count;
  std::size_t count = 0;
  for (; count < most; ++count) {
    const layout::Extent& last_a = a.entries[a.entries.size() - 1 - count];
    const layout::Extent& last_b = b.entries[b.entries.size() - 1 - count];
    if (last_a.block != last_b.block || last_a.first != last_b.first ||
        end_a - last_a.start != end_b - last_b.start) {
      break;
    }
    end_a = last_a.start;
    end_b = last_b.start;
  }
  return count;
}

bool HasSameSlots(const layout::SequenceRecord& a, const layout::SequenceRecord& b) {
  return a.state_slot == b.state_slot && a.logits_slot == b.logits_slot &&
         a.checkpoints == b.checkpoints;
}

std::string NameOf(const layout::SnapshotRecord& record) {
  return {record.name, ::strnlen(record.name, sizeof record.name)};
}

}  // namespace

const layout::SequenceRecord& Transaction::OldOf(const Record& record) const {
  return store_.meta.sequences()[record.index];
}

// Records that the old and the new list of each group refer to the same cells.
void Transaction::SetSame(Record* record) const {
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    record->differences[group].same_behind = OldOf(*record).extents[group].entry_count;
  }
}

// Sets the differences between the lists of both records. Most changes leave the beginning and the
// end of a list unchanged.
void Transaction::Compare(Record* record, const layout::SequenceRecord& old) {
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    const ExtentView was = store_.ViewOf(old, group);
    const ExtentView is = store_.ViewOf(*record->put, group);
    Record::Difference& difference = record->differences[group];
    std::size_t lost = 0;
    std::size_t first = 0;
    if (!was.entries.empty() && !is.entries.empty()) {
      if (was.entries.data() == is.entries.data()) {
        // The list has been changed in place: all entries that the old and the new list have in
        // common, except the last one, are the same.
        first = std::min(was.entries.size(), is.entries.size()) - 1;
      } else {
        if (is.first_cell() > was.first_cell() && is.first_cell() < was.cell_count) {
          // The list of a window group has lost its first entries.
          const std::size_t at = FindExtent(was, is.first_cell());
          if (was.entries[at].start == is.first_cell()) lost = at;
        }
        first = CountSameInFront(was.entries.subspan(lost), is.entries);
      }
    }
    const std::size_t most = std::min(was.entries.size() - lost, is.entries.size()) - first;
    difference.lost = static_cast<std::uint32_t>(lost);
    difference.first = static_cast<std::uint32_t>(first);
    difference.same_behind = static_cast<std::uint32_t>(CountSameBehind(was, is, most));
  }
}

bool Transaction::IsCounted(const Record& record, Side side) {
  return side == Side::kNew ? !record.is_freed : record.was_counted;
}

const layout::SequenceRecord& Transaction::RecordOf(const Record& record, Side side) const {
  return side == Side::kNew ? *record.put : OldOf(record);
}

// Calls count(group, range) for the entries of the record on `side` that the record on the other
// side does not have.
template <class Count>
void Transaction::VisitDifferences(const Record& record, Side side, const Count& count) const {
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    const Record::Difference& difference = record.differences[group];
    const ExtentView view = store_.ViewOf(RecordOf(record, side), group);
    const std::size_t lost = side == Side::kOld ? difference.lost : 0;
    for (std::size_t at = 0; at < lost; ++at) count(group, view.RangeAt(at));
    for (std::size_t at = lost + difference.first;
         at + difference.same_behind < view.entries.size(); ++at) {
      count(group, view.RangeAt(at));
    }
  }
}

void Transaction::AddReferences(const Record& record, Side side, std::uint32_t times) {
  if (!IsCounted(record, side)) return;
  const layout::SequenceRecord& counted = RecordOf(record, side);
  const Holder holder = side == Side::kNew ? record.new_holder : record.old_holder;
  if (!record.is_compared) {
    store_.tables.AddReferences(store_.meta, counted, holder, times);
    return;
  }
  VisitDifferences(record, side, [&](std::uint32_t group, BlockRange range) {
    store_.mutex.AssertHeld();
    store_.tables.blocks[group].Add(range, holder);
  });
  if (!HasSameSlots(OldOf(record), *record.put)) {
    store_.tables.AddSlots(store_.meta, counted, holder);
  }
}

void Transaction::DropReferences(const Record& record, Side side) {
  if (!IsCounted(record, side)) return;
  const layout::SequenceRecord& counted = RecordOf(record, side);
  const Holder holder = side == Side::kNew ? record.new_holder : record.old_holder;
  if (!record.is_compared) {
    store_.tables.DropReferences(store_.meta, counted, holder, &store_.freed);
    return;
  }
  VisitDifferences(record, side, [&](std::uint32_t group, BlockRange range) {
    store_.mutex.AssertHeld();
    store_.tables.blocks[group].Drop(range, holder, &store_.freed.blocks[group]);
  });
  if (!HasSameSlots(OldOf(record), *record.put)) {
    store_.tables.DropSlots(store_.meta, counted, holder, &store_.freed);
  }
}

// All references of the side `added` are added before those of the side `dropped` are dropped, so
// that a block that stays in use always has a reference.
void Transaction::Recount(Side added, Side dropped) {
  const std::vector<Record>& records = scratch_.records;
  for (std::size_t at = 0; at < records.size();) {
    std::size_t end = at + 1;
    while (end < records.size() && records[end].is_copy) ++end;
    AddReferences(records[at], added, static_cast<std::uint32_t>(end - at));
    at = end;
  }
  for (const Record& record : records) {
    DropReferences(record, dropped);
    static constexpr layout::SequenceRecord freed = {};
    const bool is_there = added == Side::kNew ? !record.is_freed : record.was_live;
    store_.tables.owners.Follow(record.index, is_there ? RecordOf(record, added) : freed);
  }
}

void Transaction::CollectGrowers() {
  scratch_.growers.clear();
  if (store_.shares.rules == nullptr) return;
  for (const Record& record : scratch_.records) {
    if (record.is_freed || !record.new_holder.is_held || record.change == Change::kMoved) continue;
    const OwnerId owner = record.new_holder.owner;
    const auto is_same = [owner](const TransactionScratch::Grower& grower) {
      return grower.owner == owner;
    };
    if (std::ranges::any_of(scratch_.growers, is_same)) continue;
    scratch_.growers.push_back({owner, CountedUse(store_, owner)});
  }
}

Status Transaction::CheckShares() const {
  for (const TransactionScratch::Grower& grower : scratch_.growers) {
    KVD_CHECK_OK(CheckShare(store_, grower.owner, grower.before));
  }
  return {};
}

Status Transaction::Commit() noexcept {
  store_.mutex.AssertHeld();
  KVD_ASSERT(!is_committed_);
  KVD_CHECK_OK(store_.log.CheckFits());
  for (Record& record : scratch_.records) {
    record.old_holder = store_.facts[record.index].holder;
    if (record.is_freed) continue;
    record.new_holder = HolderOf(*record.put);
    record.is_compared = record.was_live && record.old_holder == record.new_holder;
    if (!record.is_compared) continue;
    if (record.change == Change::kShifted) {
      SetSame(&record);
    } else {
      Compare(&record, OldOf(record));
    }
  }
  CollectGrowers();
  Recount(Side::kNew, Side::kOld);
  if (Status allowed = CheckShares(); !allowed) {
    Recount(Side::kOld, Side::kNew);
    // Each block or slot in `freed` has its references back after the second Recount, or is still
    // reserved by its new user. The second Recount therefore frees no block or slot.
    store_.freed = {};
    return allowed;
  }

  scratch_.replaced.clear();
  for (const Record& record : scratch_.records) CollectReplaced(record);
  const Status committed = store_.log.Commit();
  KVD_ASSERT(committed.has_value());  // CheckFits has succeeded
  is_committed_ = true;
  DeriveSessions();
  DeriveSnapshots();
  for (const layout::ListRoot& root : scratch_.replaced) FreeList(store_, root);
  for (const Record& record : scratch_.records) Derive(record);
  store_.SettleFreed();
  return {};
}

void Transaction::CollectReplaced(const Record& record) {
  if (!record.was_live) return;
  const layout::SequenceRecord& old = OldOf(record);
  const auto collect = [&](const layout::ListRoot& gone, const layout::ListRoot& stays) {
    if (gone.capacity_units == 0) return;
    if (record.is_freed || stays.first_unit != gone.first_unit) scratch_.replaced.push_back(gone);
  };
  const layout::SequenceRecord& now = record.is_freed ? old : *record.put;
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    collect(old.extents[group], now.extents[group]);
  }
  collect(old.checkpoints, now.checkpoints);
  collect(old.given, now.given);
}

void Transaction::Derive(const Record& record) {
  const layout::SequenceRecord& now = store_.meta.sequences()[record.index];
  SequenceFacts& facts = store_.facts[record.index];
  if (record.change != Change::kMoved && record.change != Change::kFacts) {
    ++facts.content_number;
    if (record.change == Change::kComputed) facts.computed_number = facts.content_number;
  }
  facts.holder = record.new_holder;
  if (record.was_live || (now.flags & layout::kSequencePublished) == 0) {
    SyncPrefix(store_, record.index, record.alike);
  }
  NoteRetained(store_, record.index);
  if (record.is_freed) store_.tables.sequences.Give(record.index);
}

// Indexes the sequence of a snapshot for the users that the snapshot is published to.
void Transaction::DeriveSnapshots() {
  for (const TransactionScratch::Snapshot& snapshot : scratch_.snapshots) {
    const layout::SnapshotRecord& old_record = snapshot.old_record;
    const layout::SnapshotRecord& new_record = snapshot.new_record;
    const std::string before = NameOf(old_record);
    const std::string name = NameOf(new_record);
    DerivedTables& tables = store_.tables;
    if (!before.empty()) {
      tables.snapshots_by_name.erase({before, OwnerId{old_record.owner}});
      if (old_record.is_public != 0) tables.public_snapshots.erase(before);
    }
    if (!name.empty()) {
      tables.snapshots_by_name.emplace(std::pair(name, OwnerId{new_record.owner}), snapshot.index);
      if (new_record.is_public != 0) tables.public_snapshots.emplace(name, snapshot.index);
    }
    if (name.empty()) {
      store_.tables.snapshots.Give(snapshot.index);
      continue;
    }
    const auto handle = static_cast<SequenceHandle>(snapshot.new_record.sequence);
    IndexPublished(store_, IndexOf(handle), snapshot.new_record.is_public != 0);
  }
}

void Transaction::DeriveSessions() {
  for (const TransactionScratch::Session& session : scratch_.sessions) {
    if (session.old_id == session.new_id) continue;
    if (session.old_id != 0) store_.tables.sessions_by_id.erase(session.old_id);
    if (session.new_id != 0) store_.tables.sessions_by_id.emplace(session.new_id, session.index);
    if (session.new_id == 0) store_.tables.sessions.Give(session.index);
  }
}

}  // namespace kvd
