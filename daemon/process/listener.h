// The daemon's listening socket: one that a service manager opened, or one of its own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "daemon/process/io_loop.h"
#include "daemon/process/lock_file.h"
#include "shm/peer_socket.h"

namespace kvd {

// A listening socket that a service manager opened and passes to the daemon: socket activation as
// systemd does it (sd_listen_fds(3): LISTEN_PID, LISTEN_FDS, descriptors from 3 on).

struct InheritedSocket {
  UniqueFd descriptor;  // a listening socket, non-blocking and close-on-exec
  std::string path;     // path of the socket's file
};

// Returns the socket that the environment names, or nullopt if LISTEN_PID is not set or names
// another process. TakeInheritedSocket removes the environment variables, so that no child process
// inherits them, and may be called only once, before threads start. Errors: kInvalidArgument
// (LISTEN_FDS is not 1; the descriptor is not a listening Unix stream socket with a path), kIo.
Result<std::optional<InheritedSocket>> TakeInheritedSocket();

// Listener: the daemon's listening socket. The listener creates the socket file with the group and
// modes of the table below, and admits only the uids that the last paragraph names.
//
// Owner: the server. Only the io thread uses a Listener. A stale socket file is removed under the
// lock file "PATH.lock", so that two daemons never use the same path. The listener removes the
// socket file when it ends, and then the lock file.
//
//   who may connect        directory  socket
//   the daemon's own uid   0700       0600
//   others too             0710       0660; group of both: --socket-group; without that flag the
//                                     group of the first allowed uid if the daemon is root, else
//                                     the daemon's own group
//
// The file modes decide which processes can reach the socket. The peer's uid (SO_PEERCRED) and
// groups (SO_PEERGROUPS) decide which peers are admitted: the daemon's own uid, the allowed uids,
// and members of --socket-group.

struct ListenerOptions {
  std::string socket_path;
  bool makes_directory = false;  // true: the directory of the socket is created if it is missing
  std::vector<std::uint32_t> allowed_uids;
  std::optional<std::string> group;
};

class Listener {
 public:
  // The listener calls an Accepted for every connection. If the peer is refused, `admitted` is the
  // error.
  using Accepted =
      std::function<void(UniqueFd socket, const PeerCredentials& peer, Status admitted)>;

  // Errors: kInvalidArgument (path too long, unknown group), kPermission (directory), kExists (a
  // file that is not a socket has that path), kBusy (another daemon; names its pid), kIo.
  static Result<std::unique_ptr<Listener>> Create(const ListenerOptions& options);
  // Adopt makes a Listener that uses a socket passed by a service manager. The service manager owns
  // the socket file: the listener does not change the file's modes, and Stop does not remove the
  // file. Errors: kInvalidArgument (unknown group).
  static Result<std::unique_ptr<Listener>> Adopt(const ListenerOptions& options,
                                                 InheritedSocket inherited);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  void Start(IoLoop& loop, Accepted accepted);
  // Stops accepting connections, and removes the socket file if Create has created it.
  void Stop();

  const std::string& path() const { return options_.socket_path; }

 private:
  Listener(ListenerOptions options, std::optional<gid_t> group, std::optional<LockFile> lock,
           UniqueFd socket);

  void Watch();
  void OnReadable();
  Status CheckAdmitted(int socket, const PeerCredentials& peer) const;

  const ListenerOptions options_;
  const std::optional<gid_t> group_;
  // The lock of the socket's path; nullopt: the socket was inherited.
  const std::optional<LockFile> lock_;
  UniqueFd socket_;
  IoLoop* loop_ = nullptr;
  Accepted accepted_;
  std::unique_ptr<IoLoop::Handle> watch_;
  std::unique_ptr<IoLoop::Handle> pause_;
};

}  // namespace kvd
