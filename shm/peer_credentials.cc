#include "shm/peer_credentials.h"

#include <sys/socket.h>

namespace kvd {

Result<PeerCredentials> ReadPeerCredentials(int socket) {
  ucred credentials{};
  socklen_t credential_bytes = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &credential_bytes) != 0) {
    return FailErrno("SO_PEERCRED");
  }
  return PeerCredentials{credentials.pid, credentials.uid, credentials.gid};
}

}  // namespace kvd
