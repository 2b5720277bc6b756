// ListeningSocket: a socket that listens on a ListenAddress.
//
// A unix socket's file has mode 0600 before any process can connect. The file is removed when the
// ListeningSocket ends, unless another file has replaced it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"
#include "http/serve/listen_address.h"

namespace kvd::http {

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
