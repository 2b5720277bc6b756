// OwnerTable: what each owner holds, and which sequences belong to a session, to a request or, as
// retained ones, to an owner, each found without a look at any other sequence.
//
// Part of DerivedTables: Follow is called with every record that a commit has changed, so the table
// can be rebuilt from the records alone. Not thread-safe. Costs: O(log n) for Follow of a record
// whose owner or request changed, O(1) for one that only grew.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "engine/memory/owner.h"
#include "shm/segment_layout.h"

namespace kvd {

// Whether a sequence with these flags stays only as long as its room is not needed.
constexpr bool IsEvictable(std::uint32_t flags) {
  return (flags & layout::kSequenceRetained) != 0 && (flags & layout::kSequencePinned) == 0;
}

class OwnerTable {
 public:
  explicit OwnerTable(std::uint32_t sequence_capacity = 0) : entries_(sequence_capacity) {}

  // The table says of the sequence what its record says; a record that is not live is forgotten.
  // REQUIRES: index < sequence_capacity.
  void Follow(std::uint32_t index, const layout::SequenceRecord& record);

  // Sequences and list units; the rest of it is counted elsewhere.
  OwnerUse UseOf(OwnerId owner) const;
  // The largest session id that owns a sequence; 0: none does.
  std::uint64_t LastSession() const;
  // The largest id of a request of the session that made or last computed a sequence; 0: none.
  std::uint64_t LastRequest(std::uint64_t session) const;
  // The session's sequences that the request made, by index.
  std::vector<std::uint32_t> CreatedBy(std::uint64_t session, std::uint64_t request) const;

  // Where a listing continues.
  struct Cursor {
    std::uint64_t request = 0;  // that made the sequence, where a session is listed
    std::uint32_t index = 0;
  };
  // Fills `indices` from the front with the session's sequences, or the owner's retained ones, at
  // and behind the cursor, which moves behind them. Returns how many: fewer than asked for at the
  // end.
  std::size_t ListSession(std::uint64_t session, Cursor* cursor,
                          std::span<std::uint32_t> indices) const;
  std::size_t ListRetained(OwnerId owner, Cursor* cursor, std::span<std::uint32_t> indices) const;

  friend bool operator==(const OwnerTable&, const OwnerTable&) = default;

 private:
  struct Entry {  // all zero for a sequence that is not there
    std::uint64_t session = 0;
    std::uint64_t created_by = 0;
    std::uint64_t request_session = 0;
    std::uint64_t request = 0;
    OwnerId owner{};
    std::uint32_t list_units = 0;
    bool is_live = false;
    bool is_retained = false;
    bool is_held = false;
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  struct Place {
    std::uint64_t owner = 0;    // session or owner
    std::uint64_t request = 0;  // 0 for retained ones
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
  std::map<OwnerId, OwnerUse> uses_;  // none without sequences
  Places sessions_;                   // by session and the request that made it
  Places requests_;                   // by session and request that computed it last
  Places retained_;                   // by owner
};

}  // namespace kvd
