// OwnerTable: the numbers of sequences and list units that each owner holds, the sequences that
// belong to a session, the sequences that a request made, the retained sequences of an owner, and
// the sequences that expire. A lookup visits only the sequences that it returns.
//
// Part of DerivedTables: each commit calls Follow with every record that it changes, so the table
// can be rebuilt from the records alone. OwnerTable is not thread-safe. Follow costs O(log n) if
// the record's owner or request changed, and O(1) if the sequence only grew.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "engine/memory/owner.h"
#include "shm/segment_layout.h"

namespace kvd {

// Returns whether a sequence with the given flags may be evicted when its room is needed.
constexpr bool IsEvictable(std::uint32_t flags) {
  return (flags & layout::kSequenceRetained) != 0 && (flags & layout::kSequencePinned) == 0;
}

class OwnerTable {
 public:
  explicit OwnerTable(std::uint32_t sequence_capacity = 0) : entries_(sequence_capacity) {}

  // Updates the entry of the sequence from its record; removes the entry if the record is not live.
  // REQUIRES: index < sequence_capacity.
  void Follow(std::uint32_t index, const layout::SequenceRecord& record);

  // Returns the owner's counts of sequences and list units. All other members of OwnerUse are 0,
  // because other tables count the resources of those members.
  OwnerUse UseOf(OwnerId owner) const;
  // The largest id of a session that owns a sequence; 0: there is none.
  std::uint64_t LastSession() const;
  // The largest id of a request of the session that made or last computed a sequence; 0: there is
  // none.
  std::uint64_t LastRequest(std::uint64_t session) const;
  // The sequences of the session that the request made, by index.
  std::vector<std::uint32_t> CreatedBy(std::uint64_t session, std::uint64_t request) const;

  // The place at which a listing continues.
  struct Cursor {
    // The request that made the sequence; only for the sequences of a session.
    std::uint64_t request = 0;
    std::uint32_t index = 0;
  };
  // Fills `indices` with the session's sequences (ListSession) or the owner's retained sequences
  // (ListRetained), starting at the cursor, and moves the cursor after the last listed sequence.
  // Returns the number of listed sequences; fewer than indices.size(): the listing is complete.
  std::size_t ListSession(std::uint64_t session, Cursor* cursor,
                          std::span<std::uint32_t> indices) const;
  std::size_t ListRetained(OwnerId owner, Cursor* cursor, std::span<std::uint32_t> indices) const;

  // The earliest time of expiry, in milliseconds of Unix time; nullopt: no sequence expires.
  std::optional<std::uint64_t> NextExpiry() const;
  // Fills `indices` with the sequences that expire at `now_unix_ms` or earlier, the earliest first,
  // and returns their number.
  std::size_t ListExpired(std::uint64_t now_unix_ms, std::span<std::uint32_t> indices) const;

  friend bool operator==(const OwnerTable&, const OwnerTable&) = default;

 private:
  struct Entry {  // all zero if the sequence is not live
    std::uint64_t session = 0;
    std::uint64_t created_by = 0;
    std::uint64_t request_session = 0;
    std::uint64_t request = 0;
    OwnerId owner{};
    std::uint64_t expires_unix_ms = 0;
    std::uint32_t list_units = 0;
    bool is_live = false;
    bool is_retained = false;
    bool is_held = false;
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  struct Place {
    std::uint64_t owner = 0;    // session id or owner id
    std::uint64_t request = 0;  // 0 in retained_
    std::uint32_t index = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  using Places = std::set<Place>;

  static Entry EntryOf(const layout::SequenceRecord& record);
  static std::uint64_t LastIn(const Places& places, std::uint64_t owner);
  static std::size_t List(const Places& places, std::uint64_t owner, Cursor* cursor,
                          std::span<std::uint32_t> indices);
  void Put(std::uint32_t index, const Entry& entry);
  void Take(std::uint32_t index, const Entry& entry);

  std::vector<Entry> entries_;        // by index
  std::map<OwnerId, OwnerUse> uses_;  // by owner; no owner without sequences
  Places sessions_;                   // by session and the request that made the sequence
  Places requests_;                   // by session and the request that last computed the sequence
  Places retained_;                   // by owner
  // By time of expiry and index; only sequences that expire.
  std::set<std::pair<std::uint64_t, std::uint32_t>> expiries_;
};

}  // namespace kvd
