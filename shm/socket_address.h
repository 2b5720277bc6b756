// Where a daemon's socket lies: the rules that daemon and client share.
//
//   $XDG_RUNTIME_DIR/kvd/NAME.sock           where that variable holds an absolute path
//   /run/kvd/NAME.sock                       else, for root
//   ${TMPDIR:-/tmp}/kvd-UID/NAME.sock        else; where another user has taken that directory's name,
//                                            kvd-UID-SUFFIX/NAME.sock (shm/own_directory.h)
//
// The directory that holds the socket is the daemon's own: owner UID, mode 0700 (0710 where other
// uids are let in), not a link. The client checks that before it connects to a default path, so
// that nobody plants a daemon in a public directory. KVD_SOCKET overrides the client's path.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>
#include <string_view>

#include "shm/error.h"

namespace kvd {

inline constexpr std::string_view kDefaultDaemonName = "default";

// A path that fits sockaddr_un, with the length that bind and connect want.
struct SocketAddress {
  sockaddr_un address;
  socklen_t address_bytes;
};

// Errors: kInvalidArgument: empty, holds a zero byte, or too long (naming both lengths).
Result<SocketAddress> MakeSocketAddress(std::string_view path);

// The default path for a daemon of that name (ValidateName's rule) by the rules above; of several
// directories of ours the one that holds the socket. Makes nothing. Errors: kInvalidArgument (the
// name).
Result<std::string> DefaultSocketPath(std::string_view daemon_name);

// For the daemon: the same, in a directory that is made if there is none or another user has its
// name. Errors: kInvalidArgument (the name), kIo, kNoSpace.
Result<std::string> MakeDefaultSocketPath(std::string_view daemon_name);

// The path that a client uses: `explicit_path` where not empty, else KVD_SOCKET where set and
// daemon_name is empty, else the default one of `daemon_name` (kDefaultDaemonName where empty),
// whose directory, if there is one, is checked. Errors: kInvalidArgument, kPermission (the
// directory is not private to us).
Result<std::string> ClientSocketPath(std::string_view explicit_path, std::string_view daemon_name);

// For the daemon: makes the directory of `socket_path` with mode 0700 if it is missing (its parent
// must exist) and checks it. Errors: kPermission, kIo.
Status PrepareSocketDirectory(std::string_view socket_path);

// The directory of `socket_path` is a directory, no link, owned by us or by root, and others can
// neither write to it nor list it. Errors: kNotFound, kPermission, kIo.
Status CheckSocketDirectory(std::string_view socket_path);

}  // namespace kvd
