// The identity of the process at the other end of a Unix socket, as the kernel recorded it when the
// peer connected.
#pragma once

#include <sys/types.h>

#include "base/error.h"

namespace kvd {

struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};

// Reads the socket option SO_PEERCRED. The pid may be shown, but permissions must depend on the uid
// only, because the kernel may reuse the pid for another process. Errors: kIo.
Result<PeerCredentials> ReadPeerCredentials(int socket);

}  // namespace kvd
