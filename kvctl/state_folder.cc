// A state is read without its daemon's help: by the tables of `meta`, of which each number is
// checked. The bytes may be of any process of this user.
#include "kvctl/state_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include "base/name.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "shm/own_directory.h"
#include "shm/segment_layout.h"
#include "shm/socket_address.h"
#include "shm/state_names.h"
#include "shm/state_places.h"

namespace kvd::kvctl {
namespace {

constexpr const char* kLock = "lock";
constexpr std::string_view kTuning = "tuning";  // engine/tuning/tuning_file.h

struct CloseListing {
  void operator()(DIR* listing) const { ::closedir(listing); }
};

// Returns the names in a directory, without "." and "..".
std::vector<std::string> NamesIn(int directory) {
  std::vector<std::string> names;
  const int copy = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, CloseListing> listing(copy < 0 ? nullptr : ::fdopendir(copy));
  if (listing == nullptr) return names;
  while (const dirent* const entry = ::readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::ranges::sort(names);
  return names;
}

UniqueFd OpenDirectory(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// The lock of a daemon.
struct HeldLock {
  UniqueFd file;                 // empty: this process does not hold the lock
  std::uint32_t holder_pid = 0;  // of the daemon that holds it; 0: none
};

// Takes the lock if no daemon holds it. `flags`: O_CREAT, or 0 for one that may be missing.
HeldLock TryLock(int directory, const std::string& name, int flags) {
  HeldLock lock;
  lock.file =
      UniqueFd(::openat(directory, name.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600));
  if (!lock.file) return lock;
  struct stat opened{};
  struct stat named{};
  const bool is_locked = ::flock(lock.file.get(), LOCK_EX | LOCK_NB) == 0;
  const bool is_still = ::fstat(lock.file.get(), &opened) == 0 &&
                        ::fstatat(directory, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
                        named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
  if (is_locked && is_still) return lock;
  std::array<char, 32> text{};
  const ssize_t got = ::pread(lock.file.get(), text.data(), text.size() - 1, 0);
  const long pid = got > 0 ? std::strtol(text.data(), nullptr, 10) : 0;
  lock.holder_pid = pid > 0 ? static_cast<std::uint32_t>(pid) : 1;
  lock.file.reset();
  return lock;
}

bool ReadAt(int file, std::uint64_t offset, void* bytes, std::size_t byte_count) {
  return ::pread(file, bytes, byte_count, static_cast<off_t>(offset)) ==
         static_cast<ssize_t>(byte_count);
}

// Reads `count` records of a table; false: the file does not have them.
template <class Record>
bool ReadTable(int file, std::uint64_t offset, std::uint32_t count, std::vector<Record>& records) {
  constexpr std::uint32_t kRecordsMax = 1u << 20;
  if (count > kRecordsMax) return false;
  records.resize(count);
  return ReadAt(file, offset, records.data(), records.size() * sizeof(Record));
}

// What the `meta` of a state says.
struct StoredMeta {
  std::string model;
  StateContent content{};
};

std::optional<StoredMeta> ReadMeta(int directory) {
  const UniqueFd meta(::openat(directory, "meta", O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  // The header has an atomic member, so its plain members are read at their offsets.
  alignas(layout::MetaHeader) std::array<std::byte, sizeof(layout::MetaHeader)> bytes;
  if (!meta || !ReadAt(meta.get(), 0, bytes.data(), bytes.size())) return std::nullopt;
  const auto& header = *reinterpret_cast<const layout::MetaHeader*>(bytes.data());
  if (header.magic != layout::kMetaMagic || header.version != layout::kLayoutVersion ||
      header.layout_signature != layout::LayoutSignature()) {
    return std::nullopt;
  }
  std::vector<layout::SequenceRecord> sequences;
  std::vector<layout::SnapshotRecord> snapshots;
  if (!ReadTable(meta.get(), header.sequences_offset, header.geometry.sequence_capacity,
                 sequences) ||
      !ReadTable(meta.get(), header.snapshots_offset, header.geometry.snapshot_capacity,
                 snapshots)) {
    return std::nullopt;
  }
  StoredMeta stored{.model = std::string(header.model_name,
                                         ::strnlen(header.model_name, sizeof header.model_name))};
  for (const layout::SequenceRecord& sequence : sequences) {
    if (sequence.flags == 0) continue;
    ++stored.content.sequences;
    stored.content.cells += sequence.cell_count;
  }
  for (const layout::SnapshotRecord& snapshot : snapshots) {
    const std::string name(snapshot.name, ::strnlen(snapshot.name, sizeof snapshot.name));
    if (!name.empty()) stored.content.snapshots.push_back(IsName(name) ? name : "?");
  }
  return stored;
}

// What is known of a daemon's directory.
struct DaemonDirectory {
  std::string path;
  StateNote note;
  std::uint32_t holder_pid = 0;
};

// Describes the state in the folder `name` of a daemon's directory, or, if `name` is empty, in the
// directory.
StateFolder Describe(const DaemonDirectory& daemon, const std::string& name) {
  const bool is_used = daemon.holder_pid != 0 && name == daemon.note.folder;
  const std::string path = name.empty() ? daemon.path : Concat(daemon.path, "/", name);
  StateFolder folder{.path = path,
                     .daemon_path = daemon.path,
                     .daemon = daemon.note.daemon,
                     .holder_pid = daemon.holder_pid,
                     .is_used = is_used};
  const UniqueFd directory = OpenDirectory(path);
  if (!directory) return folder;
  timespec newest{};
  for (const std::string& file : NamesIn(directory.get())) {
    struct stat found{};
    if (::fstatat(directory.get(), file.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) continue;
    folder.bytes += static_cast<std::uint64_t>(found.st_blocks) * 512;
    folder.has_state |= IsStateFile(file);
    if (found.st_mtim.tv_sec > newest.tv_sec) newest = found.st_mtim;
  }
  const auto age =
      std::chrono::system_clock::now() - std::chrono::system_clock::from_time_t(newest.tv_sec);
  const auto age_ms = std::chrono::duration_cast<std::chrono::milliseconds>(age).count();
  folder.age_ms = age_ms > 0 ? static_cast<std::uint64_t>(age_ms) : 0;
  if (name == daemon.note.folder) folder.model = daemon.note.model;
  if (!folder.has_state || is_used) return folder;
  if (std::optional<StoredMeta> meta = ReadMeta(directory.get())) {
    if (!meta->model.empty()) folder.model = OneLine(meta->model);
    folder.content = std::move(meta->content);
  }
  return folder;
}

// Adds the states in `path`, the directory of the daemon `name`; the directory itself if it has
// none.
void AddStates(const std::string& path, const std::string& name,
               std::vector<StateFolder>& folders) {
  const UniqueFd directory = OpenDirectory(path);
  if (!directory) return;
  DaemonDirectory daemon{.path = path, .note = ReadStateNote(directory.get())};
  if (daemon.note.daemon.empty()) daemon.note.daemon = name;
  daemon.holder_pid = TryLock(directory.get(), kLock, 0).holder_pid;
  const std::vector<std::string> names = NamesIn(directory.get());
  std::vector<std::string> models;
  std::ranges::copy_if(names, std::back_inserter(models), IsModelFolder);
  for (const std::string& model : models) folders.push_back(Describe(daemon, model));
  if (!models.empty() && std::ranges::none_of(names, IsStateFile)) return;
  // A daemon that starts has not made its folder.
  if (models.empty()) daemon.note.folder.clear();
  folders.push_back(Describe(daemon, ""));
}

}  // namespace

std::vector<StateFolder> FindStateFolders() {
  std::vector<StateFolder> folders;
  for (const StatePlace& place : StatePlaces()) {
    for (const std::string& own :
         FindOwnDirectories(place.root, place.stem, kStateForbiddenMode).usable) {
      const UniqueFd directory = OpenDirectory(own);
      if (!directory) continue;
      for (const std::string& name : NamesIn(directory.get())) {
        const std::string path = Concat(own, "/", name);
        struct stat found{};
        if (!IsName(name) || ::lstat(path.c_str(), &found) != 0 || !S_ISDIR(found.st_mode))
          continue;
        AddStates(path, name, folders);
      }
    }
  }
  return folders;
}

namespace {

// Removes the files of a state; other files stay.
Status RemoveStateFiles(const std::string& path) {
  const UniqueFd directory = OpenDirectory(path);
  if (!directory) return FailErrno(path);
  for (const std::string& file : NamesIn(directory.get())) {
    if (!IsStateFile(file) && file != kTuning) continue;
    if (::unlinkat(directory.get(), file.c_str(), 0) != 0 && errno != ENOENT) {
      return FailErrno(Concat(path, "/", file));
    }
  }
  return {};
}

}  // namespace

Status RemoveStateFolder(const StateFolder& folder) {
  const std::string& path = folder.daemon_path;
  const UniqueFd directory = OpenDirectory(path);
  if (!directory) return FailErrno(path);
  const HeldLock lock = TryLock(directory.get(), kLock, O_CREAT);
  if (!lock.file) {
    return Fail(Code::kBusy, path, ": in use by a kvd, pid ", lock.holder_pid);
  }
  KVD_CHECK_OK(RemoveStateFiles(folder.path));
  const bool is_of_model = path != folder.path;
  if (is_of_model && ::rmdir(folder.path.c_str()) != 0) return FailErrno(folder.path);
  const std::vector<std::string> left = NamesIn(directory.get());
  if (is_of_model && std::ranges::any_of(left, [](const std::string& name) {
        return IsModelFolder(name) || IsStateFile(name);
      })) {
    return {};
  }
  (void)::unlinkat(directory.get(), kStateNoteFile, 0);
  // The lock is removed while it is held: a daemon that waits for it takes a new one.
  (void)::unlinkat(directory.get(), kLock, 0);
  if (::rmdir(path.c_str()) != 0) return FailErrno(path);
  (void)::rmdir(path.substr(0, path.rfind('/')).c_str());
  return {};
}

namespace {

// Returns whether a process listens on the socket. A full queue means that one does.
bool IsServed(const std::string& path) {
  const auto address = MakeSocketAddress(path);
  if (!address) return true;
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return true;
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address->address),
                address->address_bytes) == 0) {
    return true;
  }
  return errno != ECONNREFUSED && errno != ENOENT;
}

}  // namespace

std::vector<SocketFile> FindSocketFiles(const std::string& path) {
  std::vector<SocketFile> sockets;
  const UniqueFd directory = OpenDirectory(path);
  if (!directory) return sockets;
  constexpr std::string_view kEnd = ".sock";
  for (const std::string& name : NamesIn(directory.get())) {
    const std::string daemon = name.substr(0, name.size() - std::min(name.size(), kEnd.size()));
    if (!name.ends_with(kEnd) || !IsName(daemon)) continue;
    sockets.push_back({.path = Concat(path, "/", name),
                       .daemon = daemon,
                       .holder_pid = TryLock(directory.get(), name + ".lock", 0).holder_pid});
  }
  return sockets;
}

std::vector<std::string> RemoveLeftSockets(const std::string& path) {
  constexpr std::string_view kLockEnd = ".sock.lock";
  std::vector<std::string> removed;
  const UniqueFd directory = OpenDirectory(path);
  if (!directory) return removed;
  for (const std::string& name : NamesIn(directory.get())) {
    if (!name.ends_with(kLockEnd)) continue;
    const HeldLock lock = TryLock(directory.get(), name, 0);
    if (!lock.file) continue;
    const std::string socket = name.substr(0, name.size() - std::string_view(".lock").size());
    if (IsServed(Concat(path, "/", socket))) continue;
    if (::unlinkat(directory.get(), socket.c_str(), 0) == 0)
      removed.push_back(Concat(path, "/", socket));
    if (::unlinkat(directory.get(), name.c_str(), 0) == 0)
      removed.push_back(Concat(path, "/", name));
  }
  return removed;
}

}  // namespace kvd::kvctl
