#include "daemon/process/listener.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "daemon/process/log.h"
#include "shm/socket_address.h"

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

// The listener sets the socket's group and mode before it calls listen, so no process can connect
// before the socket has its final mode.

namespace {

constexpr int kBacklog = 128;
constexpr const char* kLockSuffix = ".lock";
constexpr int kAcceptsAtOnce = 16;
constexpr std::chrono::milliseconds kAcceptPause{50};
constexpr std::size_t kGroupsMax = 1024;

Result<gid_t> FindGroup(const std::string& name) {
  gid_t number = 0;
  const auto end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data(), end, number);
  if (parsed.ec == std::errc() && parsed.ptr == end) return number;
  // getgrnam is not thread-safe, but the listener is created at the daemon's start, before other
  // threads exist.
  const struct group* const found = ::getgrnam(name.c_str());
  if (found == nullptr) {
    return Fail(Code::kInvalidArgument, "--socket-group: no group ", Quoted(name));
  }
  return found->gr_gid;
}

// Returns the group that is set on the socket and its directory: the admitted group, or, if the
// daemon runs as root and admits other uids, the group of the first admitted uid. Returns nullopt
// if the group is not changed.
std::optional<gid_t> ReachingGroup(const ListenerOptions& options, std::optional<gid_t> admitted) {
  if (admitted || options.allowed_uids.empty() || ::geteuid() != 0) return admitted;
  const uid_t uid = options.allowed_uids.front();
  const struct passwd* const entry = ::getpwuid(uid);
  return entry != nullptr ? entry->pw_gid : static_cast<gid_t>(uid);
}

Status SetModes(const ListenerOptions& options, const std::string& directory,
                std::optional<gid_t> group) {
  const std::string& path = options.socket_path;
  const bool for_others = options.group.has_value() || !options.allowed_uids.empty();
  constexpr auto kKeep = static_cast<uid_t>(-1);
  if (group && (::lchown(path.c_str(), kKeep, *group) != 0 ||
                ::lchown(directory.c_str(), kKeep, *group) != 0)) {
    return FailFile("socket " + path, "group cannot be set");
  }
  if (::chmod(path.c_str(), for_others ? 0660 : 0600) != 0) {
    return FailFile("socket " + path, "mode cannot be set");
  }
  if (for_others && ::chmod(directory.c_str(), 0710) != 0) {
    return FailFile("socket directory " + directory, "mode cannot be set");
  }
  return {};
}

// Returns whether the peer was a member of `group` when the peer connected.
bool PeerHasGroup(int socket, const PeerCredentials& peer, gid_t group) {
  if (peer.gid == group) return true;
  std::vector<gid_t> groups(kGroupsMax);
  auto bytes = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes) != 0) return false;
  groups.resize(bytes / sizeof(gid_t));
  return std::ranges::find(groups, group) != groups.end();
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::Create(const ListenerOptions& options) {
  const std::string& path = options.socket_path;
  KVD_TRY(const SocketAddress address, MakeSocketAddress(path));
  std::optional<gid_t> group;
  if (options.group) {
    KVD_TRY(group, FindGroup(*options.group));
  }
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
  if (file.empty()) return Fail(Code::kInvalidArgument, "socket path ", path, ": has no file name");
  KVD_CHECK_OK(options.makes_directory ? PrepareSocketDirectory(path) : CheckSocketDirectory(path));
  const UniqueFd directory_fd(
      ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory_fd) return FailFile("socket directory " + directory, "cannot be opened");
  KVD_TRY(LockFile lock, LockFile::Take(directory_fd.get(), file + kLockSuffix, "socket " + path));

  struct stat old{};
  if (::lstat(path.c_str(), &old) == 0) {
    if (!S_ISSOCK(old.st_mode)) {
      return Fail(Code::kExists, "socket ", path, ": the path exists and is not a socket");
    }
    if (::unlink(path.c_str()) != 0)
      return FailFile("socket " + path, "the stale socket cannot be removed");
  }
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return FailFile("socket " + path, "cannot be created");
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address.address);
  if (::bind(socket.get(), generic, address.address_bytes) != 0) {
    return FailFile("socket " + path, "cannot be bound");
  }
  KVD_CHECK_OK(SetModes(options, directory, ReachingGroup(options, group)));
  if (::listen(socket.get(), kBacklog) != 0) return FailFile("socket " + path, "cannot listen");
  return std::unique_ptr<Listener>(
      new Listener(options, group, std::move(lock), std::move(socket)));
}

Result<std::unique_ptr<Listener>> Listener::Adopt(const ListenerOptions& options,
                                                  InheritedSocket inherited) {
  std::optional<gid_t> group;
  if (options.group) {
    KVD_TRY(group, FindGroup(*options.group));
  }
  ListenerOptions adopted = options;
  adopted.socket_path = std::move(inherited.path);
  return std::unique_ptr<Listener>(
      new Listener(std::move(adopted), group, std::nullopt, std::move(inherited.descriptor)));
}

Listener::Listener(ListenerOptions options, std::optional<gid_t> group,
                   std::optional<LockFile> lock, UniqueFd socket)
    : options_(std::move(options)),
      group_(group),
      lock_(std::move(lock)),
      socket_(std::move(socket)) {}

Listener::~Listener() { Stop(); }

void Listener::Start(IoLoop& loop, Accepted accepted) {
  loop_ = &loop;
  accepted_ = std::move(accepted);
  Watch();
}

void Listener::Watch() {
  pause_.reset();
  watch_ = loop_->WatchReadable(socket_.get(), [this] { OnReadable(); });
}

void Listener::Stop() {
  watch_.reset();
  pause_.reset();
  if (!socket_) return;
  socket_.reset();
  if (!lock_) return;
  // The lock is removed last and while it is held, so the socket that is removed is this one.
  (void)::unlink(options_.socket_path.c_str());
  (void)::unlink((options_.socket_path + kLockSuffix).c_str());
}

void Listener::OnReadable() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    UniqueFd socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
      // This error of accept means that the daemon is out of descriptors or memory. The waiting
      // connection would wake this thread again at once, so the listener stops accepting for
      // kAcceptPause.
      Log(LogLevel::kWarning, "accept_failed", FailErrno("accept").error().message);
      watch_.reset();
      pause_ = loop_->After(kAcceptPause, [this] { Watch(); });
      return;
    }
    const Result<PeerCredentials> peer = ReadPeerCredentials(socket.get());
    if (!peer) continue;
    Status admitted = CheckAdmitted(socket.get(), *peer);
    accepted_(std::move(socket), *peer, std::move(admitted));
  }
}

Status Listener::CheckAdmitted(int socket, const PeerCredentials& peer) const {
  if (peer.uid == ::geteuid()) return {};
  if (std::ranges::find(options_.allowed_uids, peer.uid) != options_.allowed_uids.end()) return {};
  if (group_ && PeerHasGroup(socket, peer, *group_)) return {};
  return Fail(Code::kPermission, "uid ", peer.uid, " is not admitted by this daemon");
}

}  // namespace kvd
