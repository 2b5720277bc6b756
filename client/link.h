// Link: one life of a connection: a socket, the segments that came with it, and what of them the
// caller still holds.
//
// Owner: a Connection, under its mutex. The last one's segments stay mapped until every output in
// them was given back: what was handed out stays readable whatever becomes of the daemon. Tickets of
// all links of a connection are distinct.
#pragma once

#include <cstdint>
#include <utility>

#include "client/handshake.h"
#include "client/output_ledger.h"
#include "shm/channel.h"
#include "shm/unique_fd.h"

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
  // False: it was not held.
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
