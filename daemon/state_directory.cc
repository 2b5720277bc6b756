// Everything is checked on the open descriptor, never on the path: what was checked is what is
// used.
#include "daemon/state_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <vector>

namespace kvd {
namespace {

constexpr long kTmpfsMagic = 0x01021994;  // TMPFS_MAGIC of linux/magic.h

std::unexpected<Error> FailPath(const std::string& path, const char* detail) {
  return FailFile("state directory " + path, detail);
}

Status CheckOwnerAndMode(int descriptor, const std::string& path) {
  struct stat found{};
  if (::fstat(descriptor, &found) != 0) return FailPath(path, "cannot be examined");
  if (found.st_uid != ::geteuid()) {
    return Fail(Code::kPermission, "state directory " + path + ": belongs to uid " +
                                       std::to_string(found.st_uid) + ", not to ours (" +
                                       std::to_string(::geteuid()) + ")");
  }
  if ((found.st_mode & 077) != 0) {
    std::array<char, 8> mode{};
    std::snprintf(mode.data(), mode.size(), "%04o", found.st_mode & 07777u);
    return Fail(Code::kPermission, "state directory " + path + ": mode " + mode.data() +
                                       " lets others in; make it 0700");
  }
  return {};
}

Result<UniqueFd> OpenPrivateDirectory(const std::string& path) {
  if (path.empty()) return Fail(Code::kInvalidArgument, "state directory: the path is empty");
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return FailPath(path, "cannot be created");
  }
  UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory) {
    if (errno == ENOTDIR || errno == ELOOP) {
      return Fail(Code::kInvalidArgument,
                  "state directory " + path + ": is not a directory, or is a symbolic link");
    }
    return FailPath(path, "cannot be opened");
  }
  KVD_CHECK_OK(CheckOwnerAndMode(directory.get(), path));
  return directory;
}

bool IsTmpfs(int descriptor) {
  struct statfs found{};
  return ::fstatfs(descriptor, &found) == 0 && found.f_type == kTmpfsMagic;
}

bool IsTmpfsWithRoom(const std::string& path, std::uint64_t needed_bytes) {
  struct statfs found{};
  if (::statfs(path.c_str(), &found) != 0 || found.f_type != kTmpfsMagic) return false;
  // A tmpfs without a limit reports no blocks at all.
  if (found.f_blocks == 0) return true;
  return static_cast<std::uint64_t>(found.f_bavail) * static_cast<std::uint64_t>(found.f_bsize) >=
         needed_bytes;
}

// Where a daemon's directory may lie: `root` must exist, each of `below` is made private.
struct Place {
  std::string root;
  std::vector<std::string> below;

  std::string path() const {
    std::string whole = root;
    for (const std::string& part : below) whole += "/" + part;
    return whole;
  }
};

// In order of preference; the last one need not be tmpfs.
std::vector<Place> DefaultPlaces(const std::string& name) {
  const std::string uid = std::to_string(::geteuid());
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  const char* const temporary = std::getenv("TMPDIR");
  std::vector<Place> places;
  if (runtime != nullptr && runtime[0] == '/') {
    places.push_back({.root = runtime, .below = {"kvd-state", name}});
  } else if (::geteuid() == 0) {
    places.push_back({.root = "/run", .below = {"kvd-state", name}});
  }
  places.push_back({.root = "/dev/shm", .below = {"kvd-" + uid, name}});
  places.push_back({.root = temporary != nullptr && temporary[0] == '/' ? temporary : "/tmp",
                    .below = {"kvd-" + uid + "-state", name}});
  return places;
}

}  // namespace

Result<StateDirectory> StateDirectory::Open(const std::string& path) {
  StateDirectory made;
  made.path_ = path;
  KVD_TRY(made.directory_, OpenPrivateDirectory(path));
  KVD_TRY(made.lock_, LockFile::Take(made.directory_.get(), "lock", "state directory " + path));
  made.on_tmpfs_ = IsTmpfs(made.directory_.get());
  return made;
}

bool StateDirectory::RemoveState() {
  bool found = false;
  // "meta" first: without it the rest is nothing.
  for (const char* const name : {"meta", "pool", "meta.bad", "meta.new"}) {
    found |= ::unlinkat(directory_.get(), name, 0) == 0;
  }
  return found;
}

Result<StateDirectory> StateDirectory::OpenDefault(const std::string& name,
                                                   std::uint64_t needed_bytes) {
  const std::vector<Place> places = DefaultPlaces(name);
  const auto holds_state = [](const Place& place) {
    return ::faccessat(AT_FDCWD, (place.path() + "/meta").c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
  };
  // Its own pool may be what left no room there.
  auto chosen = std::ranges::find_if(places, holds_state);
  if (chosen == places.end()) {
    chosen = std::find_if(places.begin(), places.end() - 1, [&](const Place& place) {
      return IsTmpfsWithRoom(place.root, needed_bytes);
    });
  }
  std::string path = chosen->root;
  for (std::size_t i = 0; i + 1 < chosen->below.size(); ++i) {
    path += "/" + chosen->below[i];
    KVD_CHECK_OK(OpenPrivateDirectory(path));
  }
  return Open(path + "/" + chosen->below.back());
}

Result<std::vector<std::string>> StateDirectory::Forget(const std::optional<std::string>& path,
                                                        const std::string& name) {
  std::vector<std::string> paths;
  if (path) {
    paths.push_back(*path);
  } else {
    for (const Place& place : DefaultPlaces(name)) paths.push_back(place.path());
  }
  std::vector<std::string> forgotten;
  for (std::string& candidate : paths) {
    struct stat found{};
    if (::lstat(candidate.c_str(), &found) != 0 && (errno == ENOENT || errno == ENOTDIR)) continue;
    KVD_TRY(StateDirectory directory, Open(candidate));
    if (directory.RemoveState()) forgotten.push_back(std::move(candidate));
  }
  return forgotten;
}

}  // namespace kvd
