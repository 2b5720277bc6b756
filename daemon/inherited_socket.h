// A listening socket that a service manager opened and passes to the daemon: socket activation as
// systemd does it (sd_listen_fds(3): LISTEN_PID, LISTEN_FDS, descriptors from 3 on).
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace kvd {

struct InheritedSocket {
  UniqueFd descriptor;  // a listening socket, non-blocking and close-on-exec
  std::string path;     // path of the socket's file
};

// Returns the socket that the environment names, or nullopt if LISTEN_PID is not set or names
// another process. TakeInheritedSocket removes the environment variables, so that no child process
// inherits them, and may be called only once, before threads start. Errors: kInvalidArgument
// (LISTEN_FDS is not 1; the descriptor is not a listening Unix stream socket with a path), kIo.
Result<std::optional<InheritedSocket>> TakeInheritedSocket();

}  // namespace kvd
