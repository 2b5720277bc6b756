// An entry contains the values that a sequence record has added to the sets and sums, so that these
// values can be removed after the record has changed.
#include "engine/memory/owner_table.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/check.h"

namespace kvd {
namespace {

std::uint32_t ListUnitsOf(const layout::SequenceRecord& record) {
  std::uint32_t units = record.checkpoints.capacity_units + record.given.capacity_units;
  for (const layout::ListRoot& root : record.extents) units += root.capacity_units;
  return units;
}

}  // namespace

OwnerTable::Entry OwnerTable::EntryOf(const layout::SequenceRecord& record) {
  if ((record.flags & layout::kSequenceLive) == 0) return {};
  return {.session = record.owner_session,
          .created_by = record.created_by,
          .request_session = record.request_session,
          .request = record.request,
          .owner = OwnerId{record.owner},
          .expires_unix_ms = record.expires_unix_ms,
          .list_units = ListUnitsOf(record),
          .is_live = true,
          .is_retained = (record.flags & layout::kSequenceRetained) != 0,
          .is_held = !IsEvictable(record.flags)};
}

void OwnerTable::Follow(std::uint32_t index, const layout::SequenceRecord& record) {
  Entry& entry = entries_[index];
  const Entry next = EntryOf(record);
  if (entry == next) return;
  Entry grown = entry;
  grown.list_units = next.list_units;
  if (grown == next && entry.is_held) {
    OwnerUse& use = uses_[entry.owner];
    use.list_units = use.list_units - entry.list_units + next.list_units;
  } else {
    if (entry.is_live) Take(index, entry);
    if (next.is_live) Put(index, next);
  }
  entry = next;
}

void OwnerTable::Put(std::uint32_t index, const Entry& entry) {
  // Session and request ids increase, so the place of a new sequence is often the last place of the
  // set.
  sessions_.insert(sessions_.end(), Place{entry.session, entry.created_by, index});
  if (entry.request != 0) requests_.insert({entry.request_session, entry.request, index});
  if (entry.is_retained) retained_.insert({static_cast<std::uint64_t>(entry.owner), 0, index});
  if (entry.expires_unix_ms != 0) expiries_.insert({entry.expires_unix_ms, index});
  if (!entry.is_held) return;
  OwnerUse& use = uses_[entry.owner];
  ++use.sequences;
  use.list_units += entry.list_units;
}

void OwnerTable::Take(std::uint32_t index, const Entry& entry) {
  sessions_.erase({entry.session, entry.created_by, index});
  if (entry.request != 0) requests_.erase({entry.request_session, entry.request, index});
  if (entry.is_retained) retained_.erase({static_cast<std::uint64_t>(entry.owner), 0, index});
  if (entry.expires_unix_ms != 0) expiries_.erase({entry.expires_unix_ms, index});
  if (!entry.is_held) return;
  const auto use = uses_.find(entry.owner);
  KVD_ASSERT(use != uses_.end() && use->second.sequences > 0);
  use->second.list_units -= entry.list_units;
  if (--use->second.sequences == 0) uses_.erase(use);
}

OwnerUse OwnerTable::UseOf(OwnerId owner) const {
  const auto use = uses_.find(owner);
  return use == uses_.end() ? OwnerUse{} : use->second;
}

std::uint64_t OwnerTable::LastSession() const {
  return sessions_.empty() ? 0 : sessions_.rbegin()->owner;
}

std::uint64_t OwnerTable::LastIn(const Places& places, std::uint64_t owner) {
  const auto behind = places.upper_bound({owner, std::numeric_limits<std::uint64_t>::max(),
                                          std::numeric_limits<std::uint32_t>::max()});
  if (behind == places.begin()) return 0;
  const Place& last = *std::prev(behind);
  return last.owner == owner ? last.request : 0;
}

std::uint64_t OwnerTable::LastRequest(std::uint64_t session) const {
  return std::max(LastIn(sessions_, session), LastIn(requests_, session));
}

std::vector<std::uint32_t> OwnerTable::CreatedBy(std::uint64_t session,
                                                 std::uint64_t request) const {
  std::vector<std::uint32_t> indices;
  for (auto place = sessions_.lower_bound({session, request, 0});
       place != sessions_.end() && place->owner == session && place->request == request; ++place) {
    indices.push_back(place->index);
  }
  return indices;
}

std::size_t OwnerTable::List(const Places& places, std::uint64_t owner, Cursor* cursor,
                             std::span<std::uint32_t> indices) {
  std::size_t count = 0;
  for (auto place = places.lower_bound({owner, cursor->request, cursor->index});
       place != places.end() && place->owner == owner && count < indices.size(); ++place) {
    indices[count++] = place->index;
    // Indices are below 2^32 - 1, so index + 1 does not overflow.
    *cursor = {.request = place->request, .index = place->index + 1};
  }
  return count;
}

std::optional<std::uint64_t> OwnerTable::NextExpiry() const {
  if (expiries_.empty()) return std::nullopt;
  return expiries_.begin()->first;
}

std::size_t OwnerTable::ListExpired(std::uint64_t now_unix_ms,
                                    std::span<std::uint32_t> indices) const {
  std::size_t count = 0;
  for (auto next = expiries_.begin();
       next != expiries_.end() && next->first <= now_unix_ms && count < indices.size(); ++next) {
    indices[count++] = next->second;
  }
  return count;
}

std::size_t OwnerTable::ListSession(std::uint64_t session, Cursor* cursor,
                                    std::span<std::uint32_t> indices) const {
  return List(sessions_, session, cursor, indices);
}

std::size_t OwnerTable::ListRetained(OwnerId owner, Cursor* cursor,
                                     std::span<std::uint32_t> indices) const {
  return List(retained_, static_cast<std::uint64_t>(owner), cursor, indices);
}

}  // namespace kvd
