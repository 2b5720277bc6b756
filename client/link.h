// Link: one socket of a connection, the segments that were received through it, and the ledger of
// outputs in these segments that the caller still holds.
//
// Owner: a Connection, whose mutex guards the link. A link's segments stay mapped until every
// output in them is released, so outputs stay readable after the daemon has ended. Tickets of all
// links of a connection are distinct.
#pragma once

#include <cstdint>
#include <utility>

#include "base/unique_fd.h"
#include "client/handshake.h"
#include "client/output_ledger.h"
#include "shm/channel.h"

namespace kvd {

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
