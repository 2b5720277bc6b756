// The mode of a unix socket's file is that of the socket's inode at bind (without the umask's
// bits), so fchmod before bind leaves no moment with another mode.
#include "http/serve/listening_socket.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/text.h"

namespace kvd::http {
namespace {

constexpr int kBacklog = 1024;

std::unexpected<Error> FailSocket(const ListenAddress& address, std::string_view what) {
  Error error = FailErrno(Concat("--host ", address.host, ": ", what)).error();
  if (errno == EADDRINUSE) error.code = Code::kBusy;
  if (errno == EACCES || errno == EPERM) error.code = Code::kPermission;
  return std::unexpected(std::move(error));
}

const sockaddr* Generic(const ListenAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.address);
}

// Removes the socket file of a server that has ended.
Status RemoveStaleSocket(const ListenAddress& address) {
  struct stat old{};
  if (::lstat(address.unix_path.c_str(), &old) != 0) {
    if (errno == ENOENT) return {};
    return FailSocket(address, "cannot be examined");
  }
  if (!S_ISSOCK(old.st_mode)) {
    return Fail(Code::kExists, "--host ", address.host, ": the path exists and is not a socket");
  }
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return FailSocket(address, "no socket");
  const bool is_connected = ::connect(probe.get(), Generic(address), address.address_bytes) == 0;
  // EAGAIN: the queue of connections of a server that listens is full.
  if (is_connected || errno == EAGAIN) {
    return Fail(Code::kBusy, "--host ", address.host, ": another server listens there");
  }
  if (errno != ECONNREFUSED) return FailSocket(address, "cannot be examined");
  if (::unlink(address.unix_path.c_str()) != 0 && errno != ENOENT) {
    return FailSocket(address, "the stale socket cannot be removed");
  }
  return {};
}

}  // namespace

Result<ListeningSocket> ListeningSocket::Open(const ListenAddress& address) {
  const int family = address.address.ss_family;
  UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return FailSocket(address, "no socket");
  if (address.is_unix()) {
    KVD_CHECK_OK(RemoveStaleSocket(address));
    if (::fchmod(socket.get(), 0600) != 0) return FailSocket(address, "mode cannot be set");
  } else {
    const int on = 1;
    if (::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
      return FailSocket(address, "SO_REUSEADDR");
    }
  }
  if (::bind(socket.get(), Generic(address), address.address_bytes) != 0) {
    return FailSocket(address, "cannot be bound");
  }
  ListeningSocket opened(std::move(socket));
  struct stat made{};
  if (address.is_unix() && ::lstat(address.unix_path.c_str(), &made) == 0) {
    opened.path_ = address.unix_path;
    opened.device_ = made.st_dev;
    opened.inode_ = made.st_ino;
  }
  if (::listen(opened.get(), kBacklog) != 0) return FailSocket(address, "cannot listen");
  return opened;
}

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept
    : socket_(std::move(other.socket_)),
      path_(std::exchange(other.path_, {})),
      device_(other.device_),
      inode_(other.inode_) {}

ListeningSocket::~ListeningSocket() {
  if (path_.empty()) return;
  struct stat present{};
  if (::lstat(path_.c_str(), &present) != 0) return;
  if (present.st_dev == device_ && present.st_ino == inode_) (void)::unlink(path_.c_str());
}

std::uint16_t ListeningSocket::port() const {
  sockaddr_storage own{};
  socklen_t own_bytes = sizeof own;
  if (::getsockname(get(), reinterpret_cast<sockaddr*>(&own), &own_bytes) != 0) return 0;
  if (own.ss_family == AF_INET) {
    sockaddr_in ipv4{};
    std::memcpy(&ipv4, &own, sizeof ipv4);
    return ntohs(ipv4.sin_port);
  }
  if (own.ss_family != AF_INET6) return 0;
  sockaddr_in6 ipv6{};
  std::memcpy(&ipv6, &own, sizeof ipv6);
  return ntohs(ipv6.sin6_port);
}

}  // namespace kvd::http
