// PendingHello: a connection that has not introduced itself yet: hello within a deadline, or it is
// closed.
//
// Owner: the server. io thread only. Everything a peer sends here is copied, checked whole, and
// then used.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

#include "daemon/io_loop.h"
#include "shm/error.h"
#include "shm/peer_credentials.h"
#include "shm/unique_fd.h"
#include "shm/wire_check.h"
#include "shm/wire_messages.h"

namespace kvd {

class PendingHello {
 public:
  // Exactly one of the two is called, once; the owner then destroys the object, not before the call
  // returns.
  struct Callbacks {
    std::function<void(const wire::CheckedHello&)> introduced;
    std::function<void(const Error& why)> failed;
  };

  PendingHello(IoLoop& loop, UniqueFd socket, const PeerCredentials& peer,
               std::chrono::milliseconds deadline, Callbacks callbacks);

  const PeerCredentials& peer() const { return peer_; }
  int socket() const { return socket_.get(); }
  UniqueFd TakeSocket() { return std::move(socket_); }

 private:
  void OnReadable();
  void GiveUp(const Error& why);

  UniqueFd socket_;
  const PeerCredentials peer_;
  const Callbacks callbacks_;
  std::array<std::byte, sizeof(wire::Hello)> hello_{};
  std::size_t received_bytes_ = 0;
  std::unique_ptr<IoLoop::Handle> timer_;
  std::unique_ptr<IoLoop::Handle> watch_;
};

// Tells a peer that it is refused, as far as it listens, without waiting for it.
void SendRefusal(int socket, const Error& why);

}  // namespace kvd
