// The directory is read again by each function, because a start calls each of them once.
#include "engine/memory/state_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>
#include <tuple>

#include "base/text.h"
#include "engine/memory/pool_segment.h"
#include "shm/segment_layout.h"
#include "shm/state_names.h"

namespace kvd {
namespace {

constexpr std::size_t kNamesMax = 1u << 16;

struct CloseDirectory {
  void operator()(DIR* listing) const { ::closedir(listing); }
};

std::string PartSuffix(std::size_t part) {
  if (part == 0) return "";
  if (part == PoolParts::kStates) return "-states";
  if (part == PoolParts::kLogits) return "-logits";
  return Concat("-g", part);
}

std::uint64_t BytesOf(const struct stat& found) {
  return static_cast<std::uint64_t>(found.st_blocks) * 512;
}

}  // namespace

std::string StateFiles::PoolFileName(std::uint64_t pool_number, std::size_t part) {
  return (pool_number == 0 ? std::string("pool") : Concat("pool.", pool_number)) + PartSuffix(part);
}

std::string StateFiles::AsideName(std::uint64_t pool_number) {
  return pool_number == 0 ? std::string("meta.bad") : Concat("meta.bad.", pool_number);
}

bool StateFiles::Exists(const std::string& name) const {
  return ::faccessat(directory_, name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

std::vector<std::string> StateFiles::List() const {
  std::vector<std::string> names;
  const int copy = ::openat(directory_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return names;
  const std::unique_ptr<DIR, CloseDirectory> listing(::fdopendir(copy));
  if (listing == nullptr) {
    ::close(copy);
    return names;
  }
  for (const dirent* entry = ::readdir(listing.get()); entry != nullptr && names.size() < kNamesMax;
       entry = ::readdir(listing.get())) {
    names.emplace_back(entry->d_name);
  }
  std::ranges::sort(names);
  return names;
}

bool StateFiles::IsPresentMeta(const struct stat& file) const {
  struct stat present{};
  return ::fstatat(directory_, "meta", &present, AT_SYMLINK_NOFOLLOW) == 0 &&
         present.st_ino == file.st_ino && present.st_dev == file.st_dev;
}

void StateFiles::Remove(const std::string& name) const {
  if (Step("remove")) (void)::unlinkat(directory_, name.c_str(), 0);
}

void StateFiles::RemovePool(std::uint64_t number) const {
  for (const std::string& name : List()) {
    if (PoolNumberOf(name) == number) Remove(name);
  }
}

Result<UniqueFd> StateFiles::Open(const std::string& name) const {
  // With O_NONBLOCK, the open does not block if the file is a pipe.
  UniqueFd descriptor(
      ::openat(directory_, name.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (descriptor) return descriptor;
  if (errno == ENOENT) return Fail(Code::kNotFound, name, ": no such file");
  if (errno == ELOOP) return Fail(Code::kPermission, name, ": a symbolic link");
  if (errno == EISDIR) return Fail(Code::kPermission, name, ": a directory");
  return FailErrno(name + ": open");
}

Result<UniqueFd> StateFiles::Create(const std::string& name) const {
  KVD_CHECK_OK(Step("create"));
  if (::unlinkat(directory_, name.c_str(), 0) != 0 && errno != ENOENT) {
    return FailErrno(name + ": unlink");
  }
  // Because of O_EXCL, the function fails if another process creates the file after the removal.
  UniqueFd descriptor(
      ::openat(directory_, name.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_CREAT | O_EXCL, 0600));
  if (descriptor) return descriptor;
  if (errno == ENOSPC || errno == EDQUOT) {
    return Fail(Code::kNoSpace, name, ": cannot be created: no space left");
  }
  return FailErrno(name + ": create");
}

Status StateFiles::Publish() const {
  KVD_CHECK_OK(Step("publish"));
  if (::renameat(directory_, "meta.new", directory_, "meta") == 0) return {};
  return FailErrno("meta.new: rename to meta");
}

std::uint64_t StateFiles::NewPoolNumber() const {
  std::vector<std::uint64_t> used;
  for (const std::string& name : List()) {
    for (const auto number : {PoolNumberOf(name), AsideNumberOf(name)}) {
      if (number) used.push_back(*number);
    }
  }
  std::uint64_t number = 0;
  while (std::ranges::find(used, number) != used.end()) ++number;
  return number;
}

std::optional<StateFiles::Names> StateFiles::ReadNames(const std::string& meta_name) const {
  const Result<UniqueFd> file = Open(meta_name);
  layout::MetaHeader header;
  // The commit word, which the header ends with, is not read.
  constexpr std::size_t kReadBytes = offsetof(layout::MetaHeader, commit_word);
  std::array<std::byte, kReadBytes> bytes{};
  if (!file || ::pread(file->get(), bytes.data(), bytes.size(), 0) != std::ssize(bytes)) {
    return std::nullopt;
  }
  std::memcpy(static_cast<void*>(&header), bytes.data(), bytes.size());
  if (header.magic != layout::kMetaMagic || header.version != layout::kLayoutVersion ||
      header.header_bytes != sizeof header) {
    return std::nullopt;
  }
  return Names{.pool_number = header.pool_number,
               .model_name = std::string(header.model_name,
                                         ::strnlen(header.model_name, sizeof header.model_name))};
}

std::string StateFiles::ReadModelName() const {
  const std::optional<Names> names = ReadNames("meta");
  return names ? names->model_name : std::string();
}

std::uint64_t StateFiles::GuessPoolNumber(const std::string& meta_name) const {
  if (const auto names = ReadNames(meta_name)) return names->pool_number;
  // Earlier layouts have the pool 0. Of a damaged `meta`, the pool is the one that no other file
  // names.
  for (const std::string& name : List()) {
    const auto number = PoolNumberOf(name);
    if (number && !Exists(AsideName(*number))) return *number;
  }
  return 0;
}

Result<std::string> StateFiles::KeepAside() const {
  struct stat present{};
  if (::fstatat(directory_, "meta", &present, AT_SYMLINK_NOFOLLOW) != 0) return std::string();
  std::uint64_t number = GuessPoolNumber("meta");
  struct stat other{};
  const auto is_taken = [&] {
    return ::fstatat(directory_, AsideName(number).c_str(), &other, AT_SYMLINK_NOFOLLOW) == 0;
  };
  if (is_taken()) {
    // An interrupted start has already kept it aside.
    if (IsPresentMeta(other)) return AsideName(number);
    number = NewPoolNumber();
  }
  std::string name = AsideName(number);
  KVD_CHECK_OK(Step("keep aside"));
  if (::linkat(directory_, "meta", directory_, name.c_str(), 0) == 0) return name;
  // A file system without links, or not a regular file.
  if (::renameat(directory_, "meta", directory_, name.c_str()) == 0) return name;
  if (!S_ISREG(present.st_mode)) return std::string();
  return FailErrno("meta: rename to " + name);
}

std::vector<std::string> StateFiles::Sweep(std::uint64_t pool_number) const {
  // By the time at which they were kept aside, the newest first.
  std::vector<std::tuple<std::int64_t, std::int64_t, std::string>> asides;
  const std::vector<std::string> names = List();
  for (const std::string& name : names) {
    struct stat found{};
    if (!AsideNumberOf(name)) continue;
    if (::fstatat(directory_, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (IsPresentMeta(found)) {
      // A start that would have kept it aside was interrupted.
      Remove(name);
      continue;
    }
    asides.emplace_back(-found.st_ctim.tv_sec, -found.st_ctim.tv_nsec, name);
  }
  std::ranges::sort(asides);
  std::vector<std::string> removed;
  for (std::size_t at = kAsidesMax; at < asides.size(); ++at) {
    removed.push_back(std::get<2>(asides[at]));
    Remove(removed.back());
  }
  if (Exists("meta.new")) Discard();
  for (const std::string& name : names) {
    const auto number = PoolNumberOf(name);
    if (number && *number != pool_number && !Exists(AsideName(*number))) Remove(name);
  }
  return removed;
}

std::uint64_t StateFiles::FreeBytes() const {
  struct statfs found{};
  // A tmpfs without a size limit reports 0 blocks.
  if (::fstatfs(directory_, &found) != 0 || found.f_blocks == 0) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  return static_cast<std::uint64_t>(found.f_bavail) * static_cast<std::uint64_t>(found.f_bsize);
}

std::vector<std::string> StateFiles::MakeRoom(std::uint64_t needed_bytes) const {
  std::vector<std::pair<std::int64_t, std::string>> asides;
  for (const std::string& name : List()) {
    struct stat found{};
    if (!AsideNumberOf(name)) continue;
    if (::fstatat(directory_, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!IsPresentMeta(found)) asides.emplace_back(found.st_ctim.tv_sec, name);
  }
  std::ranges::sort(asides);
  std::vector<std::string> removed;
  for (const auto& [seconds, name] : asides) {
    if (FreeBytes() >= needed_bytes) break;
    Remove(name);
    RemovePool(*AsideNumberOf(name));
    removed.push_back(name);
  }
  return removed;
}

void StateFiles::RemovePresent(const std::string& aside) const {
  RemovePool(GuessPoolNumber("meta"));
  if (!aside.empty()) Remove(aside);
}

bool StateFiles::RemoveUsed() const {
  const bool found = HasMeta();
  Remove("meta");
  constexpr std::uint64_t kNoPool = std::numeric_limits<std::uint64_t>::max();
  (void)Sweep(kNoPool);
  return found;
}

bool StateFiles::RemoveAll() const {
  bool found = false;
  const auto remove = [&](const std::string& name) {
    found |= ::unlinkat(directory_, name.c_str(), 0) == 0;
  };
  // `meta` is removed first, because the other files are useless without it.
  remove("meta");
  for (const std::string& name : List()) {
    if (IsStateFile(name)) remove(name);
  }
  return found;
}

std::uint64_t StateFiles::HeldBytes() const {
  std::uint64_t bytes = 0;
  for (const std::string& name : List()) {
    struct stat found{};
    if (!name.starts_with("meta") && !PoolNumberOf(name)) continue;
    if (::fstatat(directory_, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) continue;
    bytes += BytesOf(found);
  }
  return bytes;
}

std::uint64_t StateFiles::AsideBytes() const {
  std::uint64_t bytes = 0;
  for (const std::string& name : List()) {
    const auto number = AsideNumberOf(name) ? AsideNumberOf(name) : PoolNumberOf(name);
    struct stat found{};
    if (!number || !Exists(AsideName(*number))) continue;
    if (::fstatat(directory_, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0) {
      bytes += BytesOf(found);
    }
  }
  return bytes;
}

}  // namespace kvd
