#include "daemon/inherited_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace kvd {
namespace {

constexpr int kFirstDescriptor = 3;

// Returns the value of an environment variable, or nullopt if the variable is not set or is not a
// whole number.
std::optional<long> NumberIn(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  long number = 0;
  const char* const end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

Result<int> OptionOf(int descriptor, int option) {
  int value = 0;
  socklen_t bytes = sizeof value;
  if (::getsockopt(descriptor, SOL_SOCKET, option, &value, &bytes) != 0) {
    return Fail(Code::kInvalidArgument, "LISTEN_FDS: descriptor 3 is not a socket");
  }
  return value;
}

Result<std::string> PathOf(int descriptor) {
  sockaddr_un address{};
  socklen_t bytes = sizeof address;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    return FailErrno("LISTEN_FDS: getsockname");
  }
  const std::size_t path_bytes =
      bytes - std::min<std::size_t>(bytes, offsetof(sockaddr_un, sun_path));
  const std::string_view path(address.sun_path, ::strnlen(address.sun_path, path_bytes));
  if (path.empty()) {
    return Fail(Code::kInvalidArgument, "LISTEN_FDS: the socket has no path in the file system");
  }
  return std::string(path);
}

}  // namespace

Result<std::optional<InheritedSocket>> TakeInheritedSocket() {
  const std::optional<long> process = NumberIn("LISTEN_PID");
  const std::optional<long> count = NumberIn("LISTEN_FDS");
  for (const char* const variable : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) {
    ::unsetenv(variable);
  }
  if (process != std::optional<long>(::getpid())) return std::nullopt;
  if (count != 1) {
    return Fail(Code::kInvalidArgument, "LISTEN_FDS: ", count.value_or(0),
                " sockets were passed, 1 is expected");
  }
  KVD_TRY(const int domain, OptionOf(kFirstDescriptor, SO_DOMAIN));
  KVD_TRY(const int type, OptionOf(kFirstDescriptor, SO_TYPE));
  KVD_TRY(const int listens, OptionOf(kFirstDescriptor, SO_ACCEPTCONN));
  if (domain != AF_UNIX || type != SOCK_STREAM || listens == 0) {
    return Fail(Code::kInvalidArgument,
                "LISTEN_FDS: descriptor 3 is not a listening Unix stream socket");
  }
  InheritedSocket inherited;
  KVD_TRY(inherited.path, PathOf(kFirstDescriptor));
  const int flags = ::fcntl(kFirstDescriptor, F_GETFL);
  if (flags < 0 || ::fcntl(kFirstDescriptor, F_SETFL, flags | O_NONBLOCK) != 0 ||
      ::fcntl(kFirstDescriptor, F_SETFD, FD_CLOEXEC) != 0) {
    return FailErrno("LISTEN_FDS: fcntl");
  }
  inherited.descriptor = UniqueFd(kFirstDescriptor);
  return inherited;
}

}  // namespace kvd
