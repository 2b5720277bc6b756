// The owner and the mode of a directory are checked on its open descriptor, never on its path, so
// the checked directory is the directory that the daemon uses.
#include "daemon/stores/state_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "shm/own_directory.h"

namespace kvd {
namespace {

constexpr long kTmpfsMagic = 0x01021994;  // the constant TMPFS_MAGIC of linux/magic.h

std::unexpected<Error> FailPath(const std::string& path, const char* detail) {
  return FailFile("state directory " + path, detail);
}

Status CheckOwnerAndMode(int descriptor, const std::string& path) {
  struct stat found{};
  if (::fstat(descriptor, &found) != 0) return FailPath(path, "cannot be examined");
  if (found.st_uid != ::geteuid()) {
    return Fail(Code::kPermission, "state directory ", path, ": belongs to uid ", found.st_uid,
                ", not to the daemon's (", ::geteuid(), ")");
  }
  if ((found.st_mode & 077) != 0) {
    std::array<char, 8> mode{};
    std::snprintf(mode.data(), mode.size(), "%04o", found.st_mode & 07777u);
    return Fail(Code::kPermission, "state directory ", path, ": mode ", mode.data(),
                " lets others in; set it to 0700");
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
      return Fail(Code::kInvalidArgument, "state directory ", path,
                  ": is not a directory, or is a symbolic link");
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
  // A tmpfs without a size limit reports 0 blocks.
  if (found.f_blocks == 0) return true;
  return static_cast<std::uint64_t>(found.f_bavail) * static_cast<std::uint64_t>(found.f_bsize) >=
         needed_bytes;
}

constexpr mode_t kForbiddenMode = 077;

// A place for state directories: ROOT/STEM, or ROOT/STEM-SUFFIX if another user has created
// ROOT/STEM (shm/own_directory.h). In a StatePlace, the directory of each daemon has
// the daemon's name.
struct StatePlace {
  std::string root;
  std::string stem;
};

// Returns the default places in order of preference; the last place need not be a tmpfs.
std::vector<StatePlace> DefaultPlaces() {
  const std::string uid = std::to_string(::geteuid());
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  const char* const temporary = std::getenv("TMPDIR");
  std::vector<StatePlace> places;
  if (runtime != nullptr && runtime[0] == '/') {
    places.push_back({.root = runtime, .stem = "kvd-state"});
  } else if (::geteuid() == 0) {
    places.push_back({.root = "/run", .stem = "kvd-state"});
  }
  places.push_back({.root = "/dev/shm", .stem = "kvd-" + uid});
  places.push_back({.root = temporary != nullptr && temporary[0] == '/' ? temporary : "/tmp",
                    .stem = "kvd-" + uid + "-state"});
  return places;
}

// The existing state directories of the daemon `name`, at all default places.
struct ExistingPaths {
  std::vector<std::string> paths;
  std::vector<std::string> passed_over;
};
ExistingPaths FindExisting(const std::string& name) {
  ExistingPaths existing;
  const std::string suffix = "/" + name;
  for (const StatePlace& place : DefaultPlaces()) {
    OwnDirectories own = FindOwnDirectories(place.root, place.stem, kForbiddenMode);
    for (const std::string& directory : own.usable) {
      std::string path = directory + suffix;
      struct stat found{};
      if (::lstat(path.c_str(), &found) == 0) existing.paths.push_back(std::move(path));
    }
    std::ranges::move(own.passed_over, std::back_inserter(existing.passed_over));
  }
  return existing;
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
  // "meta" is removed first, because the other files are useless without it.
  for (const char* const name : {"meta", "pool", "meta.bad", "meta.new"}) {
    found |= ::unlinkat(directory_.get(), name, 0) == 0;
  }
  return found;
}

Result<StateDirectory> StateDirectory::OpenDefault(const std::string& name,
                                                   std::uint64_t needed_bytes) {
  ExistingPaths existing = FindExisting(name);
  const auto open = [&existing](const std::string& path) -> Result<StateDirectory> {
    KVD_TRY(StateDirectory opened, Open(path));
    opened.passed_over_ = std::move(existing.passed_over);
    return opened;
  };
  // A directory with stored state is used even if its tmpfs has no room left, because the stored
  // pool itself may occupy the room.
  for (const std::string& path : existing.paths) {
    if (::faccessat(AT_FDCWD, (path + "/meta").c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
      return open(path);
    }
  }
  const std::vector<StatePlace> places = DefaultPlaces();
  for (const StatePlace& place : places) {
    const bool is_last = &place == &places.back();
    if (!is_last && !IsTmpfsWithRoom(place.root, needed_bytes)) continue;
    const Result<std::string> made = MakeOwnDirectory(place.root, place.stem, kForbiddenMode);
    if (made) return open(*made + "/" + name);
    if (is_last) return Fail(made.error().code, "state directory ", made.error().message);
    existing.passed_over.push_back(made.error().message);
  }
  return Fail(Code::kInternal, "state directory: no default place");
}

Result<StateDirectory::Forgotten> StateDirectory::Forget(const std::optional<std::string>& path,
                                                         const std::string& name) {
  ExistingPaths existing;
  if (path) {
    struct stat found{};
    const bool is_missing =
        ::lstat(path->c_str(), &found) != 0 && (errno == ENOENT || errno == ENOTDIR);
    if (!is_missing) existing.paths.push_back(*path);
  } else {
    existing = FindExisting(name);
  }
  Forgotten forgotten{.removed = {}, .passed_over = std::move(existing.passed_over)};
  for (std::string& candidate : existing.paths) {
    KVD_TRY(StateDirectory directory, Open(candidate));
    if (directory.RemoveState()) forgotten.removed.push_back(std::move(candidate));
  }
  return forgotten;
}

}  // namespace kvd
