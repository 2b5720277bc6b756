// Listener: the daemon's socket: made with the right owner, group and modes, accepting only uids
// that are let in.
//
// Owner: the server. io thread only. A stale socket file is removed under a lock beside it
// ("PATH.lock"), so that never two daemons think it theirs. The socket file goes with the listener.
//
//   who may connect        directory  socket
//   the daemon's own uid   0700       0600
//   others too             0710       0660, both of --socket-group; without one, of the first
//   allowed uid's own group if
//                                     the daemon is root, else of the daemon's group
//
// File modes decide who reaches the socket, the peer's uid (SO_PEERCRED) and groups (SO_PEERGROUPS)
// who is let in: our own uid, the allowed uids, members of --socket-group.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/io_loop.h"
#include "daemon/lock_file.h"
#include "shm/error.h"
#include "shm/peer_credentials.h"
#include "shm/unique_fd.h"

namespace kvd {

struct ListenerOptions {
  std::string socket_path;
  std::vector<std::uint32_t> allowed_uids;
  std::optional<std::string> group;
};

class Listener {
 public:
  // Called for every connection: of a peer that is let in, and, with the error, of one that is not.
  using Accepted =
      std::function<void(UniqueFd socket, const PeerCredentials& peer, Status admitted)>;

  // Errors: kInvalidArgument (path too long, unknown group), kPermission (directory), kBusy
  // (another daemon; its pid), kIo.
  static Result<std::unique_ptr<Listener>> Create(const ListenerOptions& options);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  void Start(IoLoop& loop, Accepted accepted);
  // Stops accepting and removes the socket file.
  void Stop();

  const std::string& path() const { return options_.socket_path; }

 private:
  Listener(ListenerOptions options, std::optional<gid_t> group, LockFile lock, UniqueFd socket);

  void Watch();
  void OnReadable();
  Status CheckAdmitted(int socket, const PeerCredentials& peer) const;

  const ListenerOptions options_;
  const std::optional<gid_t> group_;
  const LockFile lock_;
  UniqueFd socket_;
  IoLoop* loop_ = nullptr;
  Accepted accepted_;
  std::unique_ptr<IoLoop::Handle> watch_;
  std::unique_ptr<IoLoop::Handle> pause_;
};

}  // namespace kvd
