// ServeLimits: every limit of the HTTP server, with its default.
//
// A test sets small limits; the program uses the defaults. What exceeds a limit gets the reply that
// stands behind the limit.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace kvd::http {

struct ServeLimits {
  // Connections. A connection beyond a limit gets 503 and is closed. A peer is an IPv4 address or
  // the first 64 bits of an IPv6 address; connections through a unix socket have no peer.
  std::uint32_t connection_count_max = 8192;
  std::uint32_t connections_per_peer_max = 4096;
  // Refused connections that wait for the peer to read the 503; more are closed without a reply.
  std::uint32_t refused_count_max = 64;

  // One request.
  std::size_t target_bytes_max = 8u << 10;   // path and query: 414
  std::size_t header_bytes_max = 32u << 10;  // request line and headers: 431
  std::uint32_t header_count_max = 100;      // 431
  std::size_t body_bytes_max = 64u << 20;    // 413
  // The bodies of all connections that are received or wait for their handler: 503.
  std::size_t body_bytes_in_all_max = 1u << 30;
  // Requests of one connection that wait for their handler (pipelining). No reply: the connection
  // reads the next request when there is room.
  std::uint32_t waiting_requests_max = 16;

  // Times.
  std::chrono::milliseconds handshake_time{10'000};  // of TLS; then the connection is closed
  std::chrono::milliseconds header_time{20'000};     // from the first byte to the last header: 408
  // A body may take this time, and one second more for every body_bytes_per_second_min: 408.
  std::chrono::milliseconds body_time{30'000};
  std::size_t body_bytes_per_second_min = 1024;
  std::chrono::milliseconds idle_time{75'000};   // between two requests; then close
  std::chrono::milliseconds write_time{30'000};  // without a byte that the client takes; then close
  // After the last reply, for the client to read it and to close the connection.
  std::chrono::milliseconds linger_time{5'000};
  // Between two attempts to accept when the process is out of descriptors or memory.
  std::chrono::milliseconds accept_pause{50};
};

}  // namespace kvd::http
