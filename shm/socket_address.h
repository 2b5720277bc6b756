// The path of a daemon's socket: the rules that daemon and client share.
//
//   $XDG_RUNTIME_DIR/kvd/NAME.sock           if that variable holds an absolute path
//   /run/kvd/NAME.sock                       else, for root
//   ${TMPDIR:-/tmp}/kvd-UID/NAME.sock        else; if another user has created that directory,
//                                            kvd-UID-SUFFIX/NAME.sock (shm/own_directory.h)
//
// The socket's directory is private to the daemon: owner UID, mode 0700 (0710 if other uids may
// connect), not a link. The client checks the directory's owner, mode and type before it connects
// to a default path, so that another user cannot offer a false daemon in a public directory.
// KVD_SOCKET overrides the client's path.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace kvd {

inline constexpr std::string_view kDefaultDaemonName = "default";

// A socket path as a sockaddr_un, with the address length for bind and connect.
struct SocketAddress {
  sockaddr_un address;
  socklen_t address_bytes;
};

// Errors: kInvalidArgument: the path is empty, contains a zero byte, or is too long (the message
// names both lengths).
Result<SocketAddress> MakeSocketAddress(std::string_view path);

// Returns the default path for the daemon `daemon_name` (ValidateName's rule) by the rules at the
// top of socket_address.h. If several private directories exist, the path is in the directory that
// contains the socket. DefaultSocketPath creates no directory. Errors: kInvalidArgument (the name).
Result<std::string> DefaultSocketPath(std::string_view daemon_name);

// Returns the usable directories in which default sockets of this user's daemons are.
std::vector<std::string> SocketDirectories();

// MakeDefaultSocketPath is for the daemon and returns the default path. If the uid has no private
// directory, the function creates one, also if another user has created a directory of the
// preferred name. Errors: kInvalidArgument (the name), kIo, kNoSpace.
Result<std::string> MakeDefaultSocketPath(std::string_view daemon_name);

// Returns the path that a client uses: `explicit_path` if not empty; else KVD_SOCKET if it is set
// and daemon_name is empty; else the default path of `daemon_name` (kDefaultDaemonName if empty).
// If the path is a default path and its directory exists, ClientSocketPath checks the directory.
// Errors: kInvalidArgument, kPermission (the directory is not private to this user).
Result<std::string> ClientSocketPath(std::string_view explicit_path, std::string_view daemon_name);

// PrepareSocketDirectory is for the daemon: it creates the directory of `socket_path` with mode
// 0700 if the directory is missing (its parent must exist), and checks the directory with
// CheckSocketDirectory. Errors: kPermission, kIo.
Status PrepareSocketDirectory(std::string_view socket_path);

// Checks that the directory of `socket_path` is a real directory (no link), belongs to the
// effective uid or to root, and that others can neither write to it nor list it. Errors: kNotFound,
// kPermission, kIo.
Status CheckSocketDirectory(std::string_view socket_path);

}  // namespace kvd
