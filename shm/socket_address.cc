#include "shm/socket_address.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "base/unique_fd.h"
#include "shm/own_directory.h"
#include "shm/wire_check.h"

namespace kvd {
namespace {

// Mode bits that the directory of a socket must not have: read and write for the group, and all
// bits for others.
constexpr mode_t kForbiddenMode = 0067;

// Returns the value of the environment variable if the value is an absolute path, else an empty
// text.
std::string AbsolutePathFrom(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && value[0] == '/' ? std::string(value) : std::string();
}

std::string DirectoryOf(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(path.substr(0, slash == 0 ? 1 : slash));
}

// The root and the stem (shm/own_directory.h) of the socket's directory for a user without a
// runtime directory. All users can create files in the root of a SharedPlace.
struct SharedPlace {
  std::string root;
  std::string stem;
};
SharedPlace TemporaryPlace() {
  std::string root = AbsolutePathFrom("TMPDIR");
  if (root.empty()) root = "/tmp";
  return {.root = std::move(root), .stem = Concat("kvd-", ::geteuid())};
}

// Returns a directory in which only this user can create files, or an empty text if this user has
// no such directory.
std::string RuntimeDirectory() {
  if (std::string runtime = AbsolutePathFrom("XDG_RUNTIME_DIR"); !runtime.empty()) {
    return runtime + "/kvd";
  }
  return ::geteuid() == 0 ? "/run/kvd" : "";
}

// Returns the first private directory in TemporaryPlace() that contains `file`; if no private
// directory contains `file`, returns the first private directory.
std::string FindTemporaryDirectory(const std::string& file) {
  const SharedPlace place = TemporaryPlace();
  const OwnDirectories own = FindOwnDirectories(place.root, place.stem, kForbiddenMode);
  for (const std::string& directory : own.usable) {
    if (::faccessat(AT_FDCWD, (directory + file).c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
      return directory;
    }
  }
  return own.usable.empty() ? place.root + "/" + place.stem : own.usable.front();
}

}  // namespace

Result<SocketAddress> MakeSocketAddress(std::string_view path) {
  SocketAddress result{};
  if (path.empty()) return Fail(Code::kInvalidArgument, "socket path: empty");
  if (path.find('\0') != std::string_view::npos) {
    return Fail(Code::kInvalidArgument, "socket path: holds a zero byte");
  }
  const std::size_t path_bytes_max = sizeof(result.address.sun_path) - 1;
  if (path.size() > path_bytes_max) {
    return Fail(Code::kInvalidArgument, "socket path: ", path.size(), " bytes, at most ",
                path_bytes_max, ": ", path);
  }
  result.address.sun_family = AF_UNIX;
  std::memcpy(result.address.sun_path, path.data(), path.size());
  result.address_bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return result;
}

Result<std::string> DefaultSocketPath(std::string_view daemon_name) {
  if (auto check = wire::ValidateName(daemon_name); !check) {
    return Fail(Code::kInvalidArgument, "daemon ", check.error().message);
  }
  const std::string file = "/" + std::string(daemon_name) + ".sock";
  const std::string runtime = RuntimeDirectory();
  return (runtime.empty() ? FindTemporaryDirectory(file) : runtime) + file;
}

std::vector<std::string> SocketDirectories() {
  const std::string runtime = RuntimeDirectory();
  if (runtime.empty()) {
    const SharedPlace place = TemporaryPlace();
    return FindOwnDirectories(place.root, place.stem, kForbiddenMode).usable;
  }
  if (!CheckSocketDirectory(runtime + "/")) return {};
  return {runtime};
}

Result<std::string> MakeDefaultSocketPath(std::string_view daemon_name) {
  KVD_TRY(std::string path, DefaultSocketPath(daemon_name));
  if (!RuntimeDirectory().empty() || CheckSocketDirectory(path)) return path;
  const SharedPlace place = TemporaryPlace();
  KVD_TRY(const std::string directory, MakeOwnDirectory(place.root, place.stem, kForbiddenMode));
  return directory + "/" + std::string(daemon_name) + ".sock";
}

Result<std::string> ClientSocketPath(std::string_view explicit_path, std::string_view daemon_name) {
  if (!explicit_path.empty()) return std::string(explicit_path);
  if (daemon_name.empty()) {
    if (const char* path = std::getenv("KVD_SOCKET"); path != nullptr && *path != '\0') return path;
    daemon_name = kDefaultDaemonName;
  }
  KVD_TRY(std::string path, DefaultSocketPath(daemon_name));
  // ClientSocketPath does not report a missing directory, because the error of the later connect
  // call gives more advice.
  if (auto check = CheckSocketDirectory(path); !check && check.error().code != Code::kNotFound) {
    return std::unexpected(std::move(check).error());
  }
  return path;
}

Status PrepareSocketDirectory(std::string_view socket_path) {
  const std::string directory = DirectoryOf(socket_path);
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return FailErrno("socket directory " + directory);
  }
  return CheckSocketDirectory(socket_path);
}

Status CheckSocketDirectory(std::string_view socket_path) {
  const std::string directory = DirectoryOf(socket_path);
  const UniqueFd descriptor(
      ::open(directory.c_str(), O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor) {
    if (errno == ENOENT) return Fail(Code::kNotFound, "socket directory ", directory, ": missing");
    if (errno == ENOTDIR || errno == ELOOP) {
      return Fail(Code::kPermission, "socket directory ", directory,
                  ": not a directory, or a link");
    }
    return FailErrno("socket directory " + directory);
  }
  struct stat status;
  if (::fstat(descriptor.get(), &status) != 0) return FailErrno("socket directory " + directory);
  if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    return Fail(Code::kPermission, "socket directory ", directory, ": owned by uid ", status.st_uid,
                ", not by ", ::geteuid(), " or root");
  }
  const mode_t mode = status.st_mode & 07777;
  if ((mode & kForbiddenMode) != 0) {
    return Fail(Code::kPermission, "socket directory ", directory, ": mode ", OctalMode(mode),
                ", 0700 or 0710 wanted");
  }
  return {};
}

}  // namespace kvd
