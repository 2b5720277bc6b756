// Queries of sequences. Lists are built from portions that each hold the mutex for microseconds, so
// that listing 10,000 sequences does not block other threads.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "engine/memory/record_functions.h"
#include "engine/memory/sequences.h"

namespace kvd {

Result<SequenceInfo> Sequences::Query(SequenceHandle handle) const {
  const MutexLock lock(store_.mutex);
  KVD_TRY(const FoundSequence found, store_.Find(handle));
  return store_.Describe(found.index);
}

Result<SequenceUse> Sequences::QueryUse(SequenceHandle handle) const {
  const MutexLock lock(store_.mutex);
  KVD_TRY(const FoundSequence found, store_.Find(handle));
  const ExtentView view = store_.ViewOf(*found.record);
  std::int64_t delta_max = 0;
  for (const layout::Extent& extent : view.entries) {
    delta_max = std::max(delta_max, std::abs(std::int64_t{extent.delta}));
  }
  return SequenceUse{.shared_cells = store_.CountSharedCells(view),
                     .delta_count = CountDeltas(view),
                     .delta_max = delta_max};
}

Result<SequenceHistory> Sequences::QueryHistory(SequenceHandle handle) const {
  const MutexLock lock(store_.mutex);
  KVD_TRY(const FoundSequence found, store_.Find(handle));
  const layout::SequenceRecord& record = *found.record;
  return SequenceHistory{.sequence = store_.Describe(found.index),
                         .parent = static_cast<SequenceHandle>(record.parent),
                         .parent_cells = record.parent_cells,
                         .edit_count = record.edit_count,
                         .edits = EditsOf(store_.meta.history(found.index), record.edit_count)};
}

template <class Next>
std::vector<SequenceInfo> Sequences::ListInPortions(Next next) const {
  std::vector<SequenceInfo> infos;
  std::array<std::uint32_t, kListedAtOnce> indices;
  // The portion is a separate vector, so that the result vector does not allocate memory under the
  // mutex.
  std::vector<SequenceInfo> portion;
  portion.reserve(kListedAtOnce);
  std::size_t count = kListedAtOnce;
  while (count == kListedAtOnce) {
    portion.clear();
    {
      const MutexLock lock(store_.mutex);
      count = next(std::span(indices));
      for (std::size_t at = 0; at < count; ++at) portion.push_back(store_.Describe(indices[at]));
      store_.looks.records_at_once = std::max<std::uint64_t>(store_.looks.records_at_once, count);
    }
    infos.insert(infos.end(), portion.begin(), portion.end());
  }
  std::ranges::sort(infos, {}, [](const SequenceInfo& info) { return IndexOf(info.handle); });
  return infos;
}

std::vector<SequenceInfo> Sequences::List() const {
  std::uint32_t index = 0;
  return ListInPortions([&](std::span<std::uint32_t> indices) {
    store_.mutex.AssertHeld();
    std::size_t count = 0;
    for (; index < store_.tables.sequences.capacity() && count < indices.size(); ++index) {
      if (!store_.tables.sequences.is_free(index)) indices[count++] = index;
    }
    return count;
  });
}

std::vector<SequenceInfo> Sequences::ListOf(SessionId session) const {
  OwnerTable::Cursor cursor;
  return ListInPortions([&](std::span<std::uint32_t> indices) {
    store_.mutex.AssertHeld();
    return store_.tables.owners.ListSession(static_cast<std::uint64_t>(session), &cursor, indices);
  });
}

std::optional<std::uint64_t> Sequences::NextExpiry() const {
  const MutexLock lock(store_.mutex);
  return store_.tables.owners.NextExpiry();
}

std::vector<SequenceInfo> Sequences::Expired(std::uint64_t now_unix_ms) const {
  std::array<std::uint32_t, kListedAtOnce> indices;
  std::vector<SequenceInfo> infos;
  infos.reserve(kListedAtOnce);
  const MutexLock lock(store_.mutex);
  const std::size_t count = store_.tables.owners.ListExpired(now_unix_ms, indices);
  for (std::size_t at = 0; at < count; ++at) infos.push_back(store_.Describe(indices[at]));
  return infos;
}

std::vector<SequenceInfo> Sequences::RetainedOf(OwnerId owner) const {
  OwnerTable::Cursor cursor;
  return ListInPortions([&](std::span<std::uint32_t> indices) {
    store_.mutex.AssertHeld();
    return store_.tables.owners.ListRetained(owner, &cursor, indices);
  });
}

OwnerUse Sequences::UseOf(OwnerId owner) const {
  const MutexLock lock(store_.mutex);
  return store_.tables.UseOf(owner);
}

std::uint32_t Sequences::Visit(std::uint32_t first_index, std::uint32_t end_index,
                               std::size_t extents_max, SequenceVisitor& visitor) const {
  const MutexLock lock(store_.mutex);
  const std::uint32_t end = std::min(end_index, store_.geometry().sequence_capacity);
  std::size_t extents_seen = 0;
  for (std::uint32_t index = first_index; index < end; ++index) {
    if (extents_seen >= extents_max) return index;
    const layout::SequenceRecord& record = store_.meta.sequences()[index];
    if ((record.flags & layout::kSequenceLive) == 0) continue;
    const ExtentView view = store_.ViewOf(record);
    visitor.Visit(store_.Describe(index), store_.CountSharedCells(view),
                  record.checkpoints.entry_count, view.entries);
    extents_seen += view.entries.size() + 1;
  }
  return end_index;
}

}  // namespace kvd
