// The owner and the mode of a directory are checked on its open descriptor, never on its path, so
// the checked directory is the directory that the daemon uses.
#include "daemon/stores/state_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "daemon/process/log.h"
#include "engine/memory/state_files.h"
#include "shm/own_directory.h"
#include "shm/state_names.h"
#include "shm/state_places.h"

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

constexpr const char* kLockName = "lock";
// Each try but the last finds that another process has removed the directory.
constexpr int kOpenTriesMax = 100;

// Returns whether the path still names the open directory.
bool IsStill(const std::string& path, int directory) {
  struct stat named{};
  struct stat found{};
  return ::lstat(path.c_str(), &named) == 0 && ::fstat(directory, &found) == 0 &&
         named.st_dev == found.st_dev && named.st_ino == found.st_ino;
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

// The existing state directories of the daemon `name`, at all default places.
struct ExistingPaths {
  std::vector<std::string> paths;
  std::vector<std::string> passed_over;
};
ExistingPaths FindExisting(const std::string& name) {
  ExistingPaths existing;
  const std::string suffix = "/" + name;
  const auto exists = [](const std::string& path) {
    return ::faccessat(AT_FDCWD, path.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
  };
  for (const StatePlace& place : StatePlaces()) {
    OwnDirectories own = FindOwnDirectories(place.root, place.stem, kStateForbiddenMode);
    for (const std::string& directory : own.usable) {
      if (exists(directory + suffix)) existing.paths.push_back(directory + suffix);
    }
    std::ranges::move(own.passed_over, std::back_inserter(existing.passed_over));
  }
  for (const StatePlace& place : EarlierStatePlaces()) {
    for (const std::string& directory :
         FindOwnDirectories(place.root, place.stem, kStateForbiddenMode).usable) {
      const std::string path = directory + suffix;
      const bool is_earlier = exists(path + "/meta") && !exists(path + "/" + kStateNoteFile);
      if (is_earlier) existing.paths.push_back(path);
    }
  }
  return existing;
}

struct CloseListing {
  void operator()(DIR* listing) const { ::closedir(listing); }
};

// The folders of models in a daemon's directory.
std::vector<std::string> ListModels(const std::string& path) {
  std::vector<std::string> models;
  const std::unique_ptr<DIR, CloseListing> listing(::opendir(path.c_str()));
  for (const dirent* entry = nullptr;
       listing != nullptr && (entry = ::readdir(listing.get())) != nullptr;) {
    if (IsModelFolder(entry->d_name)) models.emplace_back(entry->d_name);
  }
  std::ranges::sort(models);
  return models;
}

// The state directly in `directory`; nullopt: there is none.
std::optional<StoredState> ReadState(const std::string& path, std::string model_id) {
  const UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory) return std::nullopt;
  StoredState state{.path = path, .model_id = std::move(model_id), .model_name = {}};
  const StateFiles files(directory.get());
  state.bytes = files.HeldBytes();
  if (state.bytes == 0 && !files.HasMeta()) return std::nullopt;
  state.model_name = files.ReadModelName();
  return state;
}

// The states in a daemon's directory; the first one, if it has no model_id, is of a version without
// folders for models.
std::vector<StoredState> ReadStates(const std::string& path) {
  std::vector<StoredState> states;
  if (auto state = ReadState(path, "")) states.push_back(*std::move(state));
  for (const std::string& model : ListModels(path)) {
    if (auto state = ReadState(Concat(path, "/", model), model))
      states.push_back(*std::move(state));
  }
  return states;
}

}  // namespace

std::string StoredState::text() const {
  const std::string model =
      model_name.empty() ? std::string("of an unknown model") : "model " + Quoted(model_name);
  return Concat(path, " (", model, ", ", bytes, " bytes)");
}

std::string StateDirectory::ModelId(std::span<const std::uint64_t, 4> fingerprint) {
  constexpr char kHexDigits[] = "0123456789abcdef";
  std::uint64_t number = 0;
  for (const std::uint64_t word : fingerprint) number ^= word;
  std::string id(kModelFolderStem);
  for (int shift = 60; shift >= 0; shift -= 4) id += kHexDigits[number >> shift & 15];
  return id;
}

Result<StateDirectory> StateDirectory::Open(const std::string& path) {
  StateDirectory made;
  made.path_ = made.daemon_path_ = path;
  for (int tries = 1;; ++tries) {
    KVD_TRY(made.directory_, OpenPrivateDirectory(path));
    auto lock = LockFile::Take(made.directory_.get(), kLockName, "state directory " + path);
    // The daemon that has used the directory may remove it at its end.
    if (!IsStill(path, made.directory_.get()) && tries < kOpenTriesMax) continue;
    if (!lock) return std::unexpected(std::move(lock).error());
    made.lock_ = std::move(*lock);
    break;
  }
  made.on_tmpfs_ = IsTmpfs(made.directory_.get());
  return made;
}

Status StateDirectory::EnterModel(const std::string& model_id) {
  if (!has_folders_) return {};
  std::string path = path_ + "/" + model_id;
  KVD_TRY(model_, OpenPrivateDirectory(path));
  model_id_ = model_id;
  path_ = std::move(path);
  return {};
}

bool StateDirectory::RemoveState() { return StateFiles(descriptor()).RemoveUsed(); }

void StateDirectory::RemoveDirectory() {
  if (model_) (void)::unlinkat(directory_.get(), model_id_.c_str(), AT_REMOVEDIR);
  const bool has_models = !ListModels(daemon_path_).empty();
  const bool has_state = ReadState(daemon_path_, "").has_value();
  if (!has_models && !has_state) (void)::unlinkat(directory_.get(), kStateNoteFile, 0);
  // The lock is removed while it is held: the next daemon takes a new one.
  lock_->Remove(directory_.get());
  if (is_default_) (void)::unlinkat(AT_FDCWD, daemon_path_.c_str(), AT_REMOVEDIR);
}

Result<StateDirectory> StateDirectory::OpenDefault(const std::string& name,
                                                   std::uint64_t needed_bytes) {
  ExistingPaths existing = FindExisting(name);
  const auto open = [&existing](const std::string& path) -> Result<StateDirectory> {
    KVD_TRY(StateDirectory opened, Open(path));
    opened.is_default_ = true;
    opened.passed_over_ = std::move(existing.passed_over);
    opened.has_folders_ = true;
    return opened;
  };
  // A directory with stored state is used even if its tmpfs has no room left, because the stored
  // pool itself may occupy the room.
  for (const std::string& path : existing.paths) {
    if (!ReadStates(path).empty()) return open(path);
  }
  const std::vector<StatePlace> places = StatePlaces();
  for (const StatePlace& place : places) {
    const bool is_last = &place == &places.back();
    if (!is_last && !IsTmpfsWithRoom(place.root, needed_bytes)) continue;
    const Result<std::string> made = MakeOwnDirectory(place.root, place.stem, kStateForbiddenMode);
    if (made) return open(*made + "/" + name);
    if (is_last) return Fail(made.error().code, "state directory ", made.error().message);
    existing.passed_over.push_back(made.error().message);
  }
  return Fail(Code::kInternal, "state directory: no default place");
}

std::vector<StoredState> StateDirectory::FindStates(const std::string& name) {
  std::vector<StoredState> states;
  for (const std::string& path : FindExisting(name).paths) {
    std::ranges::move(ReadStates(path), std::back_inserter(states));
  }
  return states;
}

Result<StateDirectory::Forgotten> StateDirectory::Forget(const std::optional<std::string>& path,
                                                         const std::string& name,
                                                         const std::optional<std::string>& only) {
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
  std::string others;
  for (const std::string& candidate : existing.paths) {
    KVD_TRY(StateDirectory directory, Open(candidate));
    directory.is_default_ = !path;
    for (StoredState& state : ReadStates(candidate)) {
      if (only && *only != state.model_id && *only != state.model_name) {
        others += Concat(others.empty() ? "" : ", ", state.text());
        continue;
      }
      KVD_TRY(const UniqueFd folder, OpenPrivateDirectory(state.path));
      (void)StateFiles(folder.get()).RemoveAll();
      // The folder stays if it has other files.
      if (!state.model_id.empty()) (void)::rmdir(state.path.c_str());
      forgotten.removed.push_back(std::move(state));
    }
    directory.RemoveDirectory();
  }
  if (only && forgotten.removed.empty()) {
    return Fail(Code::kNotFound, "--only: no state is of the model ", Quoted(*only),
                others.empty() ? std::string() : "; there are: " + others);
  }
  return forgotten;
}

}  // namespace kvd
