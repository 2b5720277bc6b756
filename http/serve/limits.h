// ServeLimits: every limit of the HTTP server, with its default.
//
// A test sets small limits; the program uses the defaults. What exceeds a limit gets the reply that
// stands behind the limit.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace kvd::http {

struct ServeLimits {
  // An address, here and below, is an IPv4 address or the first 64 bits of an IPv6 address. A unix
  // socket has no address, so the limits for each address do not apply to it. Requests in progress
  // have no limit for each address: a request that lacks its key ends at once, and any other one
  // counts for a tenant (docs/tenants.md), who may use several addresses.

  // Connections. A connection beyond a limit gets 503 and is closed. Those of a trusted proxy are
  // limited in all only.
  std::uint32_t connection_count_max = 8192;
  std::uint32_t connections_per_peer_max = 4096;
  // Refused connections that wait for the peer to read the 503; more are closed without a reply.
  std::uint32_t refused_count_max = 64;

  // One request.
  std::size_t target_bytes_max = 8u << 10;   // path and query: 414
  std::size_t header_bytes_max = 32u << 10;  // request line and headers: 431
  std::uint32_t header_count_max = 100;      // 431
  std::size_t body_bytes_max = 64u << 20;    // 413
  // The body of a public route, and of a request that is refused at its head (401, 403, 404, 405)
  // or is OPTIONS: it is read so that the connection can stay, and dropped. A longer one is not
  // read: 413 for a public route, the refusal otherwise, at once; then the connection is closed.
  // For a body in chunks the limit applies to the chunks and to the lines between them, each.
  std::size_t public_body_bytes_max = 64u << 10;
  // The bodies that are received, wait for their handler or are handled: of one address: 429; of
  // all: 503. An address has a quarter, so that it cannot make the requests of others fail.
  std::size_t body_bytes_per_address_max = 256u << 20;
  std::size_t body_bytes_in_all_max = 1u << 30;
  // Requests of one connection that wait for their handler (pipelining). No reply: the connection
  // reads the next request when there is room. Behind a waiting request whose body is dropped there
  // is no room, so that a client without a key makes the server hold few heads.
  std::uint32_t waiting_requests_max = 16;

  // Times.
  std::chrono::milliseconds handshake_time{10'000};  // of TLS; then the connection is closed
  std::chrono::milliseconds header_time{20'000};     // from the first byte to the last header: 408
  // In each window at least so many bytes of a body arrive, or its end: 408. Sizes and extensions
  // of chunks, and trailers, do not count. At this rate, 32 KiB/s, the longest body takes 34
  // minutes.
  std::chrono::milliseconds body_window{10'000};
  std::size_t body_window_bytes_min = 320u << 10;
  std::chrono::milliseconds idle_time{75'000};   // between two requests; then close
  std::chrono::milliseconds write_time{30'000};  // without a byte that the client takes; then close
  // After the last reply, for the client to read it and to close the connection.
  std::chrono::milliseconds linger_time{5'000};
  // Between two attempts to accept when the process is out of descriptors or memory.
  std::chrono::milliseconds accept_pause{50};

  // Shortens the times without progress of a client to `timeout`. The minimum rate of a body stays.
  // REQUIRES: timeout > 0.
  void ShortenTo(std::chrono::milliseconds timeout);
};

inline void ServeLimits::ShortenTo(std::chrono::milliseconds timeout) {
  if (timeout < body_window) {
    const auto window_ms = static_cast<std::size_t>(body_window.count());
    const std::size_t bytes = body_window_bytes_min * static_cast<std::size_t>(timeout.count());
    body_window_bytes_min = std::max<std::size_t>(bytes / window_ms, 1);
  }
  for (std::chrono::milliseconds* const time : {&body_window, &write_time, &idle_time}) {
    *time = std::min(*time, timeout);
  }
}

}  // namespace kvd::http
