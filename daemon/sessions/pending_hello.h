// PendingHello: a connection that has not sent its hello yet. A PendingHello fails if no valid
// hello arrives before the deadline.
//
// Owner: the server. Only the io thread uses a PendingHello. The hello is received completely and
// validated before any of its fields is used.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

#include "base/error.h"
#include "base/unique_fd.h"
#include "daemon/process/io_loop.h"
#include "shm/peer_socket.h"
#include "shm/wire_check.h"
#include "shm/wire_messages.h"

namespace kvd {

class PendingHello {
 public:
  // Either `introduced` or `failed` is called, once. After this call, the owner destroys the
  // PendingHello, but only when the call has returned.
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

// Sends the peer a Welcome that refuses the hello with the error `why`, without waiting. A refusal
// that cannot be sent at once is discarded.
void SendRefusal(int socket, const Error& why);

}  // namespace kvd
