// A socket that listens, and the address on which it listens.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/unique_fd.h"

namespace kvd::http {

// ListenAddress: where a server listens: an IP address and a port, or a unix socket.
struct ListenAddress {
  std::string host;  // as --host names it
  sockaddr_storage address{};
  socklen_t address_bytes = 0;
  std::string unix_path;  // empty: not a unix socket

  bool is_unix() const { return !unix_path.empty(); }
  // 127.0.0.0/8 or ::1. A unix socket is not a loopback address: no web page can reach it.
  bool is_loopback() const;
};

// Finds the address of --host: an IP address, a name (of several addresses the first IPv4 address),
// or "unix:PATH". Port 0: the system picks one. Asks the resolver, so it is for the start of a
// program. Errors: kInvalidArgument: no such name, or a path that is too long.
Result<ListenAddress> ResolveListenAddress(const std::string& host, std::uint16_t port);

// Refuses a server that anyone in the network could use: an address other than loopback without
// keys. Errors: kPermission, unless `no_auth`.
Status CheckExposure(const ListenAddress& address, bool has_keys, bool no_auth);

// The address as a client names it: "http://127.0.0.1:8080", "https://[::1]:443", "unix:PATH".
std::string UrlOf(const ListenAddress& address, std::uint16_t port, bool has_tls);

// ListeningSocket: a socket that listens on a ListenAddress.
//
// A unix socket's file has mode 0600 before any process can connect. The file is removed when the
// ListeningSocket ends, unless another file has replaced it.
class ListeningSocket {
 public:
  // Replaces the socket file of a server that has ended. Errors: kExists: a file that is not a
  // socket has the path; kBusy: another server listens there; kPermission, kIo: the system's error.
  static Result<ListeningSocket> Open(const ListenAddress& address);
  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&&) = delete;
  ~ListeningSocket();

  int get() const { return socket_.get(); }
  // The port, also if the system has picked it; 0 for a unix socket.
  std::uint16_t port() const;

 private:
  explicit ListeningSocket(UniqueFd socket) : socket_(std::move(socket)) {}

  UniqueFd socket_;
  std::string path_;  // of the file to remove; empty: none
  dev_t device_ = 0;  // of this file
  ino_t inode_ = 0;
};

}  // namespace kvd::http
