#include "http/backend/gateway_directory.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/text.h"

namespace kvd::http {
namespace {

// How many kvd-http with the same name find a default directory of their own.
constexpr int kInstancesMax = 64;

std::string DefaultRoot() {
  if (const char* const state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state == '/') {
    return std::string(state) + "/kvd-http";
  }
  if (::geteuid() == 0) return "/var/lib/kvd-http";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') {
    const passwd* const entry = ::getpwuid(::geteuid());
    home = entry == nullptr ? "/" : entry->pw_dir;
  }
  return std::string(home) + "/.local/state/kvd-http";
}

// Creates the directory and its missing parents, each with mode 0700.
Status MakeDirectories(const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) return FailErrno(part);
    if (end == std::string::npos) return {};
  }
}

}  // namespace

Result<UniqueFd> OpenLockFile(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return FailErrno(path);
  return file;
}

Result<GatewayDirectory> GatewayDirectory::OpenAt(const std::string& path) {
  KVD_CHECK_OK(MakeDirectories(path));
  struct stat found{};
  if (::lstat(path.c_str(), &found) != 0) return FailErrno(path);
  if (!S_ISDIR(found.st_mode) || found.st_uid != ::geteuid() || (found.st_mode & 077) != 0) {
    return Fail(Code::kPermission, path,
                ": is not a directory of this user that is closed to others (mode 0700)");
  }
  KVD_TRY(UniqueFd lock, OpenLockFile(path + "/lock"));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FailErrno(path + "/lock");
    return Fail(Code::kBusy, path, ": another kvd-http uses this directory");
  }
  return GatewayDirectory(path, std::move(lock));
}

Result<GatewayDirectory> GatewayDirectory::Open(const std::string& path, std::string_view name) {
  if (!path.empty()) {
    // A path without an end slash, so that each part is created once.
    std::string plain = path;
    while (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
    return OpenAt(plain);
  }
  const std::string first = Concat(DefaultRoot(), "/", name);
  for (int instance = 1;; ++instance) {
    Result<GatewayDirectory> opened = OpenAt(instance == 1 ? first : Concat(first, ".", instance));
    if (opened || opened.error().code != Code::kBusy || instance == kInstancesMax) return opened;
  }
}

Status ReplaceFile(const std::string& path, std::string_view text) {
  const std::string fresh = path + ".new";
  UniqueFd file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return FailErrno(fresh);
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t written = ::write(file.get(), rest.data(), rest.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      const int saved = errno;
      (void)::unlink(fresh.c_str());
      errno = saved;
      return FailErrno(fresh);
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fsync(file.get()) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0) {
    return FailErrno(path);
  }
  return {};
}

}  // namespace kvd::http
