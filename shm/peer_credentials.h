// Who is at the other end of a Unix socket, as the kernel recorded it when it connected.
#pragma once

#include <sys/types.h>

#include "shm/error.h"

namespace kvd {

struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};

// SO_PEERCRED. The pid may be another process by now: show it, decide by uid. Errors: kIo.
Result<PeerCredentials> ReadPeerCredentials(int socket);

}  // namespace kvd
