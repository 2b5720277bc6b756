#include "http/serve/listening_socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/text.h"
#include "http/serve/ip_address.h"

namespace kvd::http {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";

Result<ListenAddress> UnixAddress(const std::string& host) {
  ListenAddress found;
  found.host = host;
  found.unix_path = host.substr(kUnixPrefix.size());
  sockaddr_un address{};
  if (found.unix_path.empty() || found.unix_path.find('\0') != std::string::npos) {
    return Fail(Code::kInvalidArgument, "--host ", host, ": no path behind \"unix:\"");
  }
  if (found.unix_path.size() >= sizeof address.sun_path) {
    return Fail(Code::kInvalidArgument, "--host: the path has ", found.unix_path.size(),
                " bytes, at most ", sizeof address.sun_path - 1, " are possible");
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, found.unix_path.data(), found.unix_path.size());
  std::memcpy(&found.address, &address, sizeof address);
  found.address_bytes = sizeof address;
  return found;
}

sockaddr_in AsIpv4(const sockaddr_storage& address) {
  sockaddr_in ipv4{};
  std::memcpy(&ipv4, &address, sizeof ipv4);
  return ipv4;
}

sockaddr_in6 AsIpv6(const sockaddr_storage& address) {
  sockaddr_in6 ipv6{};
  std::memcpy(&ipv6, &address, sizeof ipv6);
  return ipv6;
}

}  // namespace

bool ListenAddress::is_loopback() const {
  const std::optional<IpAddress> ip = IpAddress::Of(address);
  return ip && ip->is_loopback();
}

Result<ListenAddress> ResolveListenAddress(const std::string& host, std::uint16_t port) {
  if (host.starts_with(kUnixPrefix)) return UnixAddress(host);
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  const bool has_brackets = host.starts_with('[') && host.ends_with(']');
  const std::string name = has_brackets ? host.substr(1, host.size() - 2) : host;
  addrinfo* list = nullptr;
  const int failure = ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &wanted, &list);
  if (failure != 0 || name.empty()) {
    return Fail(Code::kInvalidArgument, "--host ", host, ": ",
                failure != 0 ? ::gai_strerror(failure) : "is empty");
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(list, &::freeaddrinfo);
  const addrinfo* chosen = list;
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    if (each->ai_family != AF_INET) continue;
    chosen = each;
    break;
  }
  ListenAddress found;
  found.host = host;
  std::memcpy(&found.address, chosen->ai_addr, chosen->ai_addrlen);
  found.address_bytes = chosen->ai_addrlen;
  return found;
}

Status CheckExposure(const ListenAddress& address, bool has_keys, bool no_auth) {
  if (has_keys || no_auth || address.is_loopback() || address.is_unix()) return {};
  return Fail(Code::kPermission, "--host ", address.host,
              ": is not a loopback address, so everyone who reaches it could use the server. Give "
              "--api-key or --tenants, or --no-auth if that is intended");
}

std::string UrlOf(const ListenAddress& address, std::uint16_t port, bool has_tls) {
  if (address.is_unix()) return address.host;
  std::array<char, INET6_ADDRSTRLEN> text{};
  const std::string_view scheme = has_tls ? "https://" : "http://";
  if (address.address.ss_family == AF_INET6) {
    const in6_addr ipv6 = AsIpv6(address.address).sin6_addr;
    ::inet_ntop(AF_INET6, &ipv6, text.data(), text.size());
    return Concat(scheme, "[", text.data(), "]:", port);
  }
  const in_addr ipv4 = AsIpv4(address.address).sin_addr;
  ::inet_ntop(AF_INET, &ipv4, text.data(), text.size());
  return Concat(scheme, text.data(), ":", port);
}

// The mode of a unix socket's file is that of the socket's inode at bind (without the umask's
// bits), so fchmod before bind leaves no moment with another mode.

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
