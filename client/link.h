// A socket of a connection with its segments (Link), and the outputs in them that the caller holds
// (OutputLedger).
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "client/handshake.h"
#include "shm/channel.h"

namespace kvd {

// OutputLedger: records which outputs in the output arena the caller still holds, so that outputs
// are released to the daemon oldest first.
//
// The daemon has only one release cursor. If an output is released before an older output, the room
// of the released output becomes free only when the older output is released. Owner: a Connection,
// whose mutex guards the ledger. Invariant: entries are in the order of their cursors; the oldest
// entry is not released.
class OutputLedger {
 public:
  OutputLedger();

  // Adds an output that ends at `release_cursor`, which is larger than the cursors of all earlier
  // outputs. Returns the output's ticket.
  std::uint64_t Hold(std::uint64_t release_cursor);

  // Releases an output. `cursor`: the new release cursor for the daemon, if it has changed. If the
  // ticket was already released or never existed, Release has no effect and `was_held` is false.
  struct Released {
    bool was_held = false;
    std::optional<std::uint64_t> cursor;
  };
  Released Release(std::uint64_t ticket);

  std::uint64_t held_count() const { return end_ - begin_; }

 private:
  struct Entry {
    std::uint64_t release_cursor = 0;
    bool is_released = false;
  };
  Entry& At(std::uint64_t ticket) { return entries_[ticket & (entries_.size() - 1)]; }
  void Grow();

  std::vector<Entry> entries_;  // a ring buffer; its size is a power of two
  // An output whose ticket is in [begin_, end_) is held, or was released while an older output was
  // held; 0 is no ticket.
  std::uint64_t begin_ = 1;
  std::uint64_t end_ = 1;
};

// Link: one socket of a connection, the segments that were received through it, and the ledger of
// outputs in these segments that the caller still holds.
//
// Owner: a Connection, whose mutex guards the link. A link's segments stay mapped until every
// output in them is released, so outputs stay readable after the daemon has ended. Tickets of all
// links of a connection are distinct.
struct Link {
  static constexpr unsigned kTicketBits = 40;

  Link(Handshake handshake, std::uint64_t link_number)
      : socket(std::move(handshake.socket)),
        map(std::move(handshake.map)),
        channel(std::move(handshake.channel)),
        number(link_number) {}

  std::uint64_t Hold(std::uint64_t release_cursor) {
    return (number << kTicketBits) | ledger.Hold(release_cursor);
  }
  // Releases an output. Returns false if the caller did not hold the output.
  bool Release(std::uint64_t ticket) {
    const auto released = ledger.Release(ticket & ((std::uint64_t{1} << kTicketBits) - 1));
    if (released.cursor) channel.completions().ReleaseUpTo(*released.cursor);
    return released.was_held;
  }
  static std::uint64_t NumberOf(std::uint64_t ticket) { return ticket >> kTicketBits; }

  UniqueFd socket;
  UniqueFd map;
  ClientChannel channel;
  OutputLedger ledger;
  const std::uint64_t number;
};

}  // namespace kvd
