#include "http/api/slot_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <utility>

#include "base/name.h"
#include "base/text.h"

namespace kvd::http {
namespace {

constexpr std::string_view kTemporaryEnding = ".tmp";
// A temporary file that is not written for longer was left behind by a process that was killed.
constexpr std::time_t kTemporarySeconds = 3600;

}  // namespace

bool IsSlotFileName(std::string_view name) {
  return !name.empty() && name.size() <= kSlotFileNameMax && IsNameCharacter(name.front(), true) &&
         std::ranges::all_of(name, [](char c) { return IsNameCharacter(c, false); });
}

NewSlotFile::~NewSlotFile() {
  if (file_) ::unlinkat(directory_.directory_.get(), beside_.c_str(), 0);
}

Status NewSlotFile::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FailErrno("writing " + name_);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status NewSlotFile::Commit() {
  const int directory = directory_.directory_.get();
  if (::fsync(file_.get()) != 0) return FailErrno("writing " + name_);
  if (::renameat(directory, beside_.c_str(), directory, name_.c_str()) != 0) {
    return FailErrno("renaming " + name_);
  }
  file_.reset();
  if (::fsync(directory) != 0) return FailErrno("renaming " + name_);
  return {};
}

Result<SlotDirectory> SlotDirectory::Open(const SlotFolder& slot_folder) {
  UniqueFd directory(::open(slot_folder.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return FailErrno("--slot-save-path " + slot_folder.directory);
  if (slot_folder.folder.empty()) return SlotDirectory(std::move(directory), slot_folder);
  if (::mkdirat(directory.get(), slot_folder.folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return FailErrno("--slot-save-path " + slot_folder.directory);
  }
  UniqueFd folder(::openat(directory.get(), slot_folder.folder.c_str(),
                           O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!folder) return FailErrno("--slot-save-path " + slot_folder.directory);
  return SlotDirectory(std::move(folder), slot_folder);
}

Status SlotDirectory::CheckRoom(const std::string& name, std::uint64_t byte_count) const {
  const std::unique_ptr<DIR, int (*)(DIR*)> listed(
      ::fdopendir(::openat(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
      &::closedir);
  if (!listed) return FailErrno("--slot-save-path");
  std::size_t count = 1;
  std::uint64_t bytes = byte_count;
  const std::time_t now = std::time(nullptr);
  while (const dirent* const entry = ::readdir(listed.get())) {
    const std::string_view found = entry->d_name;
    struct stat about{};
    if (found == name ||
        ::fstatat(directory_.get(), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(about.st_mode)) {
      continue;
    }
    const bool is_temporary = found.starts_with('.') && found.ends_with(kTemporaryEnding);
    if (is_temporary && now - about.st_mtim.tv_sec > kTemporarySeconds) {
      (void)::unlinkat(directory_.get(), entry->d_name, 0);
      continue;
    }
    if (!is_temporary) ++count;
    bytes += static_cast<std::uint64_t>(about.st_size);
  }
  if (count > count_max_) {
    return Fail(Code::kTooLarge, "slot files: ", count, ", at most ", count_max_);
  }
  if (bytes > bytes_max_) {
    return Fail(Code::kTooLarge, "slot files: ", bytes, " bytes, at most ", bytes_max_);
  }
  return {};
}

UniqueFd SlotDirectory::OpenBeneath(const std::string& name, std::uint64_t flags,
                                    std::uint64_t mode) const {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  return UniqueFd(
      static_cast<int>(::syscall(SYS_openat2, directory_.get(), name.c_str(), &how, sizeof how)));
}

Result<std::unique_ptr<NewSlotFile>> SlotDirectory::Create(const std::string& name) const {
  // The name of the temporary file begins with a dot, so that no request can name it. A file of
  // that name is left over if a process with the same id was killed while it wrote.
  constexpr int kAttempts = 100;
  static std::atomic<std::uint64_t> next_number = 0;
  for (int attempt = 1;; ++attempt) {
    std::string beside = Concat(".", name, ".", ::getpid(), "-", ++next_number, kTemporaryEnding);
    UniqueFd file = OpenBeneath(beside, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (file) {
      return std::make_unique<NewSlotFile>(*this, std::move(file), std::move(beside), name);
    }
    if (errno != EEXIST || attempt == kAttempts) return FailErrno("creating " + name);
  }
}

Result<std::vector<std::byte>> SlotDirectory::Read(const std::string& name,
                                                   std::uint64_t bytes_max) const {
  // With O_NONBLOCK, opening does not block if the file is a named pipe.
  const UniqueFd file = OpenBeneath(name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
  if (!file && (errno == ENOENT || errno == ELOOP)) {
    return Fail(Code::kInvalidArgument, name,
                errno == ENOENT ? ": no such file" : ": is a symbolic link");
  }
  struct stat about{};
  if (!file || ::fstat(file.get(), &about) != 0) return FailErrno("opening " + name);
  if (!S_ISREG(about.st_mode)) {
    return Fail(Code::kInvalidArgument, name, ": not a regular file");
  }
  const auto file_bytes = static_cast<std::uint64_t>(about.st_size);
  if (file_bytes > bytes_max) {
    return Fail(Code::kInvalidArgument, name, ": ", file_bytes, " bytes, a slot has at most ",
                bytes_max);
  }
  std::vector<std::byte> bytes(file_bytes);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FailErrno("reading " + name);
    if (got == 0) break;  // another process has truncated the file after fstat
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace kvd::http
